extension AgentSettings {
  /// Names for the frames of hosts that leave that to the agent.
  struct Symbolication: Sendable, Equatable {
    var enabled = true
    /// In bytes.
    var cache = 64 << 20
    var debugDirectories = ["/usr/lib/debug"]
    /// For one report.
    var timeLimit: Duration = .seconds(2)

    /// The row of each: its key, what is allowed, and what it means.
    static let keys: [SettingsKey<AgentSettings>] = [
      .init(
        "symbolication.enabled", \.symbolication.enabled, .bool,
        "Whether the agent looks names up for hosts that leave it to the agent."),
      .init("symbolication.cache", \.symbolication.cache, .size(1 << 20...64 << 30), "Memory for what was looked up."),
      .init(
        "symbolication.debug_directories", listOf: .path, \.symbolication.debugDirectories,
        "Where separate debug files lie (DIR/.build-id/xx/REST.debug)."),
      .init(
        "symbolication.time_limit", \.symbolication.timeLimit, .time(.milliseconds(10) ... .seconds(60)),
        "A report is written without the names that took longer."),
    ]
  }
}
