extension AgentSettings {
  /// The longest line that any setting allows, in bytes.
  static let longestLine = 16 << 20

  /// What clients may take.
  struct Limits: Sendable, Equatable {
    /// Of one unit or container; it may be ahead of that by four seconds' worth.
    var linesPerSecond = 500
    /// Of one user.
    var userLinesPerSecond = 2000
    /// Of one user; nil: any number.
    var userBytesPerDay: Int? = 240 << 20
    var lineBytes = 256 << 10
    var connections = 4096
    var connectionsPerUser = 2048
    /// In bytes, for all that waits in the agent.
    var memory = 64 << 20
    var incompleteLineTimeout: Duration = .seconds(30)

    /// The row of each: its key, what is allowed, and what it means.
    static let keys: [SettingsKey<AgentSettings>] = [
      .init(
        "limits.lines_per_second", \.limits.linesPerSecond, .count(1...1_000_000),
        "Lines per second of one unit or container; a user's processes outside of units share one limit. A line counts once per 8 KiB, rounded up. A unit that was quiet may send four times this number at once; after that, the agent reads at this rate."
      ),
      .init(
        "limits.user_lines_per_second", \.limits.userLinesPerSecond, .count(1...1_000_000),
        "Lines per second of one user, in all its units; the units take turns. A value below limits.lines_per_second counts as that."
      ),
      .init(
        "limits.user_bytes_per_day", orOff: \.limits.userBytesPerDay, .size(1 << 20...1 << 50),
        "Reports of one user that are written per day (UTC); one of its units may write at most half. Further reports are counted, not written. The limit is at most a quarter of the space of the smallest file output (max_size * (keep + 1)), but at least 1MiB. off means no limit."
      ),
      .init(
        "limits.line_bytes", \.limits.lineBytes, .size(8 << 10...AgentSettings.longestLine),
        "The longest line. The agent refuses longer lines. At most a quarter of limits.memory."),
      .init(
        "limits.connections", \.limits.connections, .count(1...1_000_000),
        "Open connections. When all are in use, the agent closes one of the user with the most to accept a user with at least two fewer."
      ),
      .init(
        "limits.connections_per_user", \.limits.connectionsPerUser, .count(1...1_000_000),
        "Open connections of one user; one of its units may have at most half."),
      .init(
        "limits.memory", \.limits.memory, .size(1 << 20...64 << 30),
        "Memory for lines that wait to be written. One user may use as much as is still free: the first user at most half. The same rule applies to the units within a user's half. Above the limit, the agent stops reading, and services keep their reports."
      ),
      .init(
        "limits.incomplete_line_timeout", \.limits.incompleteLineTimeout, .time(.seconds(1) ... .seconds(3600)),
        "The agent disconnects a client that does not finish a line within this time."),
    ]
  }
}
