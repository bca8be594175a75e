import ArgumentParser
import FoundationEssentials
import StallReport

/// The flags by which `stalld run` and `stalld check` find the settings.
struct AgentOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The settings file (default: \(AgentSettings.File.usual.path), if it exists).", valueName: "file"))
  var config: String?

  @Option(help: ArgumentHelp("The socket that services connect to (socket.path).", valueName: "path"))
  var socket: String?

  @Option(help: ArgumentHelp("The socket for stalld status, tail and reload (control.path).", valueName: "path"))
  var control: String?

  @Option(
    help: ArgumentHelp(
      "Write reports here instead of to the configured outputs: \(AgentSettings.Output.forms); may be repeated.",
      valueName: "output"))
  var output: [String] = []

  @Option(
    help: ArgumentHelp(
      "Serve /metrics and /healthz at this address: 127.0.0.1:9464, unix:PATH or off (metrics.listen).",
      valueName: "address"
    ))
  var metricsListen: String?

  @Option(
    help: ArgumentHelp(
      "A file for node_exporter's textfile collector, or off (metrics.textfile).", valueName: "path"))
  var textfile: String?

  @Option(
    help: ArgumentHelp(
      "The directory of the detail files of single stalls (details.directory).", valueName: "directory"))
  var details: String?

  @Argument(parsing: .allUnrecognized, help: .hidden) var unexpected: [String] = []

  private static let names = ["config", "socket", "control", "output", "metrics-listen", "textfile", "details"]

  /// Refuses what is no option of the command.
  ///
  /// `others` are the names of the command's own options.
  func refuseUnexpected(others: [String] = []) throws {
    guard let first = unexpected.first else { return }
    let name = first.printable
    guard first.hasPrefix("-"), first != "-" else {
      throw ValidationError("Unexpected argument '\(name)'; a settings file is given with --config \(name).")
    }
    let word = String(first.prefix { $0 != "=" })
    let nearest = Suggestion.nearest(to: word, among: (Self.names + others).map { "--" + $0 })
    throw ValidationError(
      "Unknown option '\(word.printable)'"
        + (nearest.map { ". Did you mean '\($0)'?" } ?? "; --help lists the options."))
  }

  var file: AgentSettings.File { config.map { AgentSettings.File(path: $0, isRequired: true) } ?? .usual }

  var flags: AgentSettings.Flags {
    let values = [
      ("--socket", "socket.path", socket), ("--control", "control.path", control),
      ("--metrics-listen", "metrics.listen", metricsListen), ("--textfile", "metrics.textfile", textfile),
      ("--details", "details.directory", details),
    ]
    return AgentSettings.Flags(
      values: values.compactMap { flag, key, text in
        text.map { AgentSettings.Flags.Value(flag: flag, key: key, text: $0) }
      }, outputs: output)
  }

  /// Reads the settings, also again on a reload: new ones, or all that is wrong with them.
  ///
  /// The parameters are those of ``AgentSettings/load(file:environment:flags:standardOutput:running:)``.
  func load(standardOutput: Int32? = nil, running: AgentSettings? = nil) throws(SettingsErrors) -> AgentSettings {
    try AgentSettings.load(
      file: file, environment: ProcessInfo.processInfo.environment, flags: flags, standardOutput: standardOutput,
      running: running)
  }
}
