import ArgumentParser
import Glibc

/// `stalld check`: the agent's settings, and nothing else.
struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Checks the agent's settings and lists all errors.",
    discussion: """
      Examples:
        stalld check
        stalld check --config ./stalld.yaml --print

      Reads the settings as stalld run does with the same flags: the file, then the STALLD_ variables, then the flags; later ones \
      override earlier ones. Each error is one line on standard error: file and line, key, value, and the allowed values. The \
      command opens no output and changes nothing.

      If valid settings need more permissions than the installed systemd units grant, the command prints the drop-in that grants \
      them on standard error.

      Exit code: 0 if the settings are valid, 1 if not, 64 usage error.
      """)

  @OptionGroup var options: AgentOptions

  @Flag(help: "Print the effective settings to standard output, as YAML.")
  var print = false

  /// What a file without settings means: a wrong name may be the reason.
  private static func note(_ file: AgentSettings.File) -> String? {
    var status = stat()
    let isMissing = stat(file.path, &status) != 0
    guard isMissing || status.st_size == 0 else { return nil }
    return "\(file.path) \(isMissing ? "does not exist" : "is empty"): the defaults apply; --print shows them"
  }

  func validate() throws { try options.refuseUnexpected(others: ["print"]) }

  func run() throws {
    if print { try OutputFile.checkStandardOutput(of: "check", inputs: InputFiles([options.file.path])) }
    let settings = try options.loadOrExit()
    if let note = Self.note(options.file) { StandardError.say("stalld check: " + note) }
    var needs = UnitNeeds(settings)
    needs.removeWhatIsThere()
    if !needs.needs.isEmpty { StandardError.say("stalld check: " + needs.text.dropLast()) }
    if print { StandardOutput.writeOrExit("check", Array(settings.yaml.utf8)) }
  }
}

extension AgentOptions {
  /// The settings; or their mistakes on standard error, and exit code 1.
  func loadOrExit(standardOutput: Int32? = nil) throws -> AgentSettings {
    do {
      return try load(standardOutput: standardOutput)
    } catch {
      StandardError.say(error.description)
      throw ExitCode(1)
    }
  }
}
