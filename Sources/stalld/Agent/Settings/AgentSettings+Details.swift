extension AgentSettings {
  /// Where the detail files of stalls are kept, and for how long.
  struct Details: Sendable, Equatable {
    /// An absolute path; made if only its last part is missing.
    var directory = "/var/lib/stalld/stalls"
    /// Nil: of any age.
    var maxAge: Duration? = .seconds(14 * 86_400)
    /// Bytes of all files together.
    var maxSize = 256 << 20

    /// The row of each: its key, what is allowed, and what it means.
    static let keys: [SettingsKey<AgentSettings>] = [
      .init(
        "details.directory", \.details.directory, .path,
        "The directory of the detail files. A detail file has the samples of one stall."),
      .init(
        "details.max_age", orOff: \.details.maxAge, .time(.seconds(60) ... .seconds(3650 * 86400)),
        "The agent deletes older detail files when it writes a new one; off keeps them."),
      .init(
        "details.max_size", \.details.maxSize, .size(1 << 20...1 << 50),
        "The total size of all detail files. Above it, the agent deletes the oldest files of the user with the most."),
    ]
  }
}
