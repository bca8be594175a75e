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

  /// The description of each mapping, in the order of the file.
  static let groups: [(name: String, summary: String)] = [
    ("socket", "The socket that services connect to, and who may connect."),
    ("control", "The socket for the commands stalld status, tail and reload."),
    (
      "limits",
      "Limits of clients. The agent slows down or disconnects a client above its limits; other clients are not affected."
    ),
    (
      "outputs",
      "The outputs for reports: a list, each with its type (\(Output.types)). While a file is not accepting writes, reports are kept."
    ),
    ("details", "The detail files of single stalls."),
    ("symbolication", "Function names for the frames of reports."),
    ("metrics", "The agent's own metrics, for Prometheus."),
    (
      "services",
      "Settings for single services. They override the service's own configuration. A service receives them when it connects and when this file is reloaded. A list; the first entry that matches a service applies."
    ),
  ]
}
