/// What an operator may decide of the agent.
///
/// Each group has its properties with their defaults, and a row for each: from the rows come the reader, `stalld check`, the names of the
/// variables, the suggestions, `Config/stalld.yaml` and stalld.yaml(5). A new setting is a property, its row, and its use.
struct AgentSettings: Sendable, Equatable {
  var socket = Socket()
  var control = Control()
  var limits = Limits()
  var outputs: [Output] = [.file(Output.File())]
  var details = Details()
  var symbolication = Symbolication()
  var metrics = Metrics()
  /// The first that matches a service is its own.
  var services: [ServiceOverride] = []

  /// The rows of all groups but the lists `outputs` and `services`, whose elements have rows of their own.
  static let keys =
    Socket.keys + Control.keys + Limits.keys + Details.keys + Symbolication.keys + Metrics.keys

  /// What is said of each mapping, in the order of the file.
  static let groups: [(name: String, summary: String)] = [
    ("socket", "The socket that hosts connect to, and who may."),
    ("control", "The socket of the operator's commands."),
    ("limits", "What clients may take; one above its limits is held back or disconnected, and no other is."),
    (
      "outputs",
      "Where reports are written: a list of files, stdout and syslog, each with its type. While a file cannot be written, reports wait."
    ),
    ("details", "The files of single stalls."),
    ("symbolication", "Names for the frames of reports."),
    ("metrics", "The agent's own numbers, for Prometheus."),
    (
      "services",
      "What single services are told instead of their own settings, when they connect and when this file is read again. A list; the first entry that matches a service counts."
    ),
  ]
}
