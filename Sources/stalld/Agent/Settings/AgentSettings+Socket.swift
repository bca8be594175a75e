extension AgentSettings {
  /// The socket that services connect to, and who may connect.
  struct Socket: Sendable, Equatable {
    var path = "/run/stalld/stalld.sock"
    /// The permissions of the socket's file.
    var mode: UInt32 = 0o666
    /// The group of the socket's file; the agent's own if it is nil.
    var group: Account?
    var allow = Allow()

    /// The row of each: its key, what is allowed, and what it means.
    static let keys: [SettingsKey<AgentSettings>] = [
      .init(
        "socket.path", \.socket.path, .socketPath, needsRestart: true,
        "The Unix socket that services send their reports to. With socket activation, the unit stalld.socket sets it."),
      .init("socket.mode", \.socket.mode, .mode, needsRestart: true, "The permissions of the socket file."),
      .init(
        "socket.group", orOff: \.socket.group, .group, needsRestart: true,
        "The group of the socket file; off keeps the agent's group."),
      .init(
        "socket.allow.users", listOf: .user, \.socket.allow.users,
        "Users whose processes may send reports. If both lists are empty, every process that can open the socket may."),
      .init(
        "socket.allow.groups", listOf: .group, \.socket.allow.groups, "Groups whose processes may send reports."),
    ]
  }

  /// Who may send reports: if both lists are empty, every process that can open the socket, otherwise the listed users and groups.
  struct Allow: Sendable, Equatable {
    var users: [Account] = []
    var groups: [Account] = []
  }

  /// A user or a group, as the operator wrote it and as the kernel knows it.
  struct Account: Sendable, Equatable {
    var name: String
    var id: UInt32
  }

  /// The socket of `stalld status`, `stalld tail` and `stalld reload`.
  struct Control: Sendable, Equatable {
    var path = "/run/stalld/control.sock"

    /// The row of each: its key, what is allowed, and what it means.
    static let keys: [SettingsKey<AgentSettings>] = [
      .init(
        "control.path", \.control.path, .socketPath, needsRestart: true,
        "The socket for stalld status, stalld tail and stalld reload.")
    ]
  }
}
