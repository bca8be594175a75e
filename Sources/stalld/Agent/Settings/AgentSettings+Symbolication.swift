extension AgentSettings {
  /// Names for the frames of services that do not look them up themselves.
  struct Symbolication: Sendable, Equatable {
    var enabled = true
    /// In bytes.
    var cache = 64 << 20
    var debugDirectories = ["/usr/lib/debug"]
    /// For one report.
    var timeLimit: Duration = .seconds(2)
    /// What one of the two processes that read debug files may use, in bytes.
    var workerMemory: Int { 4 * cache + (256 << 20) }

    /// The row of each: its key, what is allowed, and what it means.
    static let keys: [SettingsKey<AgentSettings>] = [
      .init(
        "symbolication.enabled", \.symbolication.enabled, .bool, needsRestart: true,
        "Whether the agent looks up function names for services that do not do so themselves."),
      .init(
        "symbolication.cache", \.symbolication.cache, .size(1 << 20...64 << 30), needsRestart: true,
        "The size of the cache of names."),
      .init(
        "symbolication.debug_directories", listOf: .path, \.symbolication.debugDirectories, needsRestart: true,
        "Directories with separate debug files (DIR/.build-id/xx/REST.debug)."),
      .init(
        "symbolication.time_limit", \.symbolication.timeLimit, .time(.milliseconds(10) ... .seconds(60)),
        needsRestart: true,
        "The time limit for the names of one report. When it is reached, the agent writes the report without the missing names."
      ),
    ]
  }
}
