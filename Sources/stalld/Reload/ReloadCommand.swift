import ArgumentParser
import FoundationEssentials
import Glibc
import StallMonitor
import StallReport

/// `stalld reload`: the running agent reads its settings again, and says how that ended.
struct ReloadCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reload",
    abstract: "Makes the running agent reload its settings, and waits for the result.",
    discussion: """
      Example:
        stalld check && stalld reload

      The agent applies all of the new settings or none: if one is invalid, standard error lists every error, one per line. \
      systemctl reload stalld runs this command. Only root and the agent's own user may reload.

      Exit code: 0 if the new settings are in effect, 1 if they were refused or no agent responds, 64 usage error.
      """)

  @Option(
    help: ArgumentHelp(
      "The settings file with the agent's control.path (default: \(AgentSettings.File.usual.path), if it exists).",
      valueName: "file"))
  var config: String?

  @Option(help: ArgumentHelp("The agent's control socket (control.path).", valueName: "path"))
  var control: String?

  /// A reload waits for the outputs, which may wait for a disk.
  private static let patience = Duration.seconds(80)

  func run() throws {
    if let config, access(config, R_OK) != 0 {
      try fail([
        "\(config): \(String(cString: strerror(errno))); name the agent's settings file, or its socket with --control"
      ])
    }
    let path = control ?? controlPath
    let line: [UInt8]
    do {
      line = try ControlClient(path: path, request: #"{"reload":{}}"#, within: Self.patience).line()
    } catch {
      try fail(["\(error); a new control.path needs a restart"])
    }
    guard let text = try? JSONText(line) else {
      try fail(["the agent at \(path) sent an answer that is not JSON"])
    }
    if let error = text.string(text.root["error"]) {
      try fail(error.split(separator: "\n").map { "not reloaded: \($0)" })
    }
    if let keys = text.string(text.root["reload"]?["needs_restart"]) {
      StandardError.say("reload", "restart the agent to apply \(keys)")
    }
  }

  /// The agent's control socket, from its settings, also if other parts of these are invalid.
  private var controlPath: String {
    let file = config.map { AgentSettings.File(path: $0, isRequired: true) } ?? .usual
    return AgentSettings.usable(file: file, environment: ProcessInfo.processInfo.environment).control.path
  }

  private func fail(_ reasons: [String]) throws -> Never {
    for reason in reasons { StandardError.say("reload", reason) }
    throw ExitCode(1)
  }
}
