import ArgumentParser
import Glibc

/// `stalld settings-reference`: what is built from the table of keys, for those who package the agent.
struct SettingsReferenceCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "settings-reference",
    abstract: "Prints the commented default settings, or their manual page, to standard output.",
    discussion: """
      Example:
        stalld settings-reference yaml > stalld.yaml
      """,
    shouldDisplay: false)

  enum Form: String, ExpressibleByArgument, CaseIterable { case yaml, manual }

  @Argument(help: "yaml (the installed settings file) or manual (stalld.yaml(5)).")
  var form: Form

  func run() {
    let text = form == .yaml ? SettingsReference.file : SettingsManual().text
    StandardOutput.writeOrExit("settings-reference", Array(text.utf8))
  }
}
