/// One row of a matrix: what a process does, and how it is watched while it does it.
public struct Scenario: Sendable, Hashable, CustomStringConvertible {
  /// Where the monitor writes its lines.
  public enum Sink: Sendable {
    case file, standardOutput, agent
    /// The scenario chooses one that takes nothing.
    case own
  }

  /// The name in the matrix.
  public let description: String
  /// The host's arguments, without `watched` or `unwatched`.
  let name: [String]
  let role: [String]
  let environment: [String: String]
  let sink: Sink
  /// False where the monitor may well have nothing to write: out of memory, without its file, stopped.
  let isReported: Bool

  /// The arguments of a run.
  func arguments(isWatched: Bool) -> [String] { name + [isWatched ? "watched" : "unwatched"] + role }
}

extension Scenario {
  /// How every stall is found soon, written, and sampled as often as the monitor allows.
  private static func eager(_ threshold: String, threads: String? = nil) -> [String: String] {
    var environment = [
      "STALLMONITOR_THRESHOLD": threshold, "STALLMONITOR_SAMPLING": "10ms", "STALLMONITOR_REPEAT_WINDOW": "0s",
      "STALLMONITOR_BUDGET": "0",
    ]
    environment["STALLMONITOR_THREADS"] = threads
    return environment
  }

  /// A process whose surroundings are unusual.
  static func host(
    _ name: String, sink: Sink = .file, isReported: Bool = true, threads: String? = nil, threshold: String = "20ms"
  ) -> Scenario {
    Scenario(
      description: name, name: ["host", name], role: [], environment: eager(threshold, threads: threads), sink: sink,
      isReported: isReported)
  }

  /// A process that shows what it can see of being watched.
  public static func visible(_ name: String, environment: [String: String] = [:]) -> Scenario {
    Scenario(
      description: name, name: ["visible", name], role: [], environment: eager("20ms").merging(environment) { $1 },
      sink: .file, isReported: true)
  }

  /// Who does a transfer, and how its process is watched.
  public enum Role: String, CaseIterable, Sendable {
    case loop = "on the loop, threshold 1 ms"
    case late = "on the loop, at defaults"
    case holder = "by the lock holder, threshold 1 ms"
    case anyThread = "by a bystander, with all threads"
    case runningThread = "by a bystander, with running threads"

    var argument: String {
      switch self {
      case .loop: "loop"
      case .late: "late"
      case .holder: "holder"
      case .anyThread, .runningThread: "bystander"
      }
    }

    var environment: [String: String] {
      switch self {
      case .loop, .holder: eager("1ms")
      case .late: [:]
      case .anyThread: eager("1ms", threads: "all")
      case .runningThread: eager("1ms", threads: "running")
      }
    }
  }

  /// A transfer inside the kernel; `isFiltered` is under a seccomp filter that allows everything, where the monitor must not try
  /// `perf_event_open`.
  static func transfer(_ name: String, role: Role, isFiltered: Bool) -> Scenario {
    Scenario(
      description: "\(name) \(role.rawValue)\(isFiltered ? ", under a filter" : "")", name: ["transfer", name],
      role: [role.argument] + (isFiltered ? ["filtered"] : []), environment: role.environment, sink: .file,
      // A short transfer may be over before it is late.
      isReported: role == .late)
  }
}
