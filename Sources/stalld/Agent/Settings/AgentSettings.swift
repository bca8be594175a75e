/// What the operator has set.
struct AgentSettings: Equatable, Sendable {
  /// Names for functions.
  struct Symbolication: Equatable, Sendable {
    var isEnabled = true
    /// Bytes.
    var cache = 64 << 20
    var debugDirectories = ["/usr/lib/debug"]
    var timeLimit: Duration = .seconds(2)
  }
}
