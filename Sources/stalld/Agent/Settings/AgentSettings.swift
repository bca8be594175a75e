import StallReport

/// What an operator may decide of the agent.
///
/// The keys of the file, their types and what they mean are in `AgentSettings.keys`.
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

  /// The socket that hosts connect to, and who may.
  struct Socket: Sendable, Equatable {
    var path = "/run/stalld/stalld.sock"
    /// The permissions of the socket's file.
    var mode: UInt32 = 0o666
    /// The group of the socket's file; the agent's own if it is nil.
    var group: Account?
    var allow = Allow()
  }

  /// Who may hand in reports: everyone who may open the socket if both are empty, otherwise whoever is in one of them.
  struct Allow: Sendable, Equatable {
    var users: [Account] = []
    var groups: [Account] = []
  }

  /// A user or a group, as the operator wrote it and as the kernel knows it.
  struct Account: Sendable, Equatable {
    var name: String
    var id: UInt32
  }

  /// The socket of `stalld status` and `stalld tail`.
  struct Control: Sendable, Equatable {
    var path = "/run/stalld/control.sock"
  }

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
  }

  /// Names for the frames of hosts that leave that to the agent.
  struct Symbolication: Sendable, Equatable {
    var enabled = true
    /// In bytes.
    var cache = 64 << 20
    var debugDirectories = ["/usr/lib/debug"]
    /// For one report.
    var timeLimit: Duration = .seconds(2)
  }

  /// The agent's own numbers.
  struct Metrics: Sendable, Equatable {
    /// Where `/metrics` and `/healthz` are served; nil is nowhere.
    var listen: MetricsAddress?
    /// A file for node_exporter's textfile collector; nil is none.
    var textfile: String?
    var textfileInterval: Duration = .seconds(15)
  }
}
