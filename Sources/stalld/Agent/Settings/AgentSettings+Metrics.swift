extension AgentSettings {
  /// The agent's own numbers.
  struct Metrics: Sendable, Equatable {
    /// Where `/metrics` and `/healthz` are served; nil is nowhere.
    var listen: MetricsAddress?
    /// A file for node_exporter's textfile collector; nil is none.
    var textfile: String?
    var textfileInterval: Duration = .seconds(15)

    /// The name of the text file until it is whole.
    static func unfinished(of textfile: String) -> String { textfile + ".new" }

    /// The row of each: its key, what is allowed, and what it means.
    static let keys: [SettingsKey<AgentSettings>] = [
      .init(
        "metrics.listen", orOff: \.metrics.listen, .metricsAddress, needsRestart: true,
        "The address that serves /metrics for Prometheus, and /healthz."),
      .init(
        "metrics.textfile", orOff: \.metrics.textfile, .textfile, needsRestart: true,
        "A file with the same metrics for node_exporter's textfile collector."),
      .init(
        "metrics.textfile_interval", \.metrics.textfileInterval, .time(.seconds(1) ... .seconds(3600)),
        needsRestart: true,
        "How often the agent writes that file."),
    ]
  }
}
