import ArgumentParser
import FoundationEssentials
import StallMonitor
import StallReport

/// `stalld reload`: the running agent reads its settings again, and says how that ended.
struct ReloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reload",
    abstract: "Has the running agent read its settings again, and waits for the outcome.",
    discussion: """
      All of the new settings are in force then, or none: if one cannot be used, each mistake is a line on standard error. It is \
      what systemctl reload stalld runs. Root and the agent's own user may ask for it.

      Exit code: 0 if the new settings are in force, 1 if they were refused or no agent answers, 64 wrong use.
      """)

  @Option(
    help: ArgumentHelp(
      "The configuration file, in which control.path says where the agent is asked (default: \(AgentSettings.File.usual.path), if it is there).",
      valueName: "file"))
  var config: String?

  @Option(help: ArgumentHelp("The agent's control socket (control.path).", valueName: "path"))
  var control: String?

  /// A reload waits for the outputs, which may wait for a disk.
  private static let patience = Duration.seconds(80)

  func run() throws {
    let path = control ?? controlPath
    let line: [UInt8]
    do {
      line = try ControlClient(path: path, request: #"{"reload":{}}"#, within: Self.patience).line()
    } catch {
      try fail(["\(error); a new control.path needs a restart"])
    }
    guard let text = try? JSONText(line) else {
      try fail(["the agent at \(path) gives an answer that is no JSON text"])
    }
    if let error = text.string(text.root["error"]) {
      try fail(error.split(separator: "\n").map { "not reloaded: \(String($0).printable)" })
    }
    if let keys = text.string(text.root["reload"]?["needs_restart"]) {
      StandardError.say("stalld reload: a restart is needed for \(keys.printable)")
    }
  }

  /// Where the agent is asked, as its settings say, whatever else is wrong with them.
  private var controlPath: String {
    let file = config.map { AgentSettings.File(path: $0, isRequired: true) } ?? .usual
    return AgentSettings.usable(file: file, environment: ProcessInfo.processInfo.environment).control.path
  }

  private func fail(_ reasons: [String]) throws -> Never {
    for reason in reasons { StandardError.say("stalld reload: \(reason)") }
    throw ExitCode(1)
  }
}
