extension AgentSettings {
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
        "Lines of one unit or container, and of all processes of a user that have none. A line counts once for each 8 KiB that it has begun. Four seconds' worth may come at once. The agent reads no faster."
      ),
      .init(
        "limits.user_lines_per_second", \.limits.userLinesPerSecond, .count(1...1_000_000),
        "Lines of one user in all its units, which have their turns; at least what one unit may send."),
      .init(
        "limits.user_bytes_per_day", orOff: \.limits.userBytesPerDay, .size(1 << 20...1 << 50),
        "Reports of one user that are written in a day (UTC), of one of its units at most half of it. What is more is counted, and not written. Never more than a quarter of what the files hold that are kept; off admits all."
      ),
      .init(
        "limits.line_bytes", \.limits.lineBytes, .size(8 << 10...16 << 20),
        "The longest line. A client that sends a longer one is refused it. At most a quarter of limits.memory."),
      .init(
        "limits.connections", \.limits.connections, .count(1...1_000_000),
        "Connections at a time. When all are taken, the user with the most gives way to one that has fewer."),
      .init(
        "limits.connections_per_user", \.limits.connectionsPerUser, .count(1...1_000_000),
        "Connections of one user at a time, and of one of its units at most half of them."),
      .init(
        "limits.memory", \.limits.memory, .size(1 << 20...64 << 30),
        "What may wait in the agent to be written: of one user as much as is free, and of one of its units as much as is left of its user's half. Beyond it the agent reads nothing, and hosts keep their reports."
      ),
      .init(
        "limits.incomplete_line_timeout", \.limits.incompleteLineTimeout, .time(.seconds(1) ... .seconds(3600)),
        "A client that leaves a line unfinished for so long is disconnected."),
    ]
  }
}
