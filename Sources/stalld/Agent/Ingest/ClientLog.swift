import LoopEngine

/// Log lines about strangers: at most one a minute for each of them and each kind, and few for all of them together.
///
/// A client must not fill the journal, not even one with a new process for each connection.
struct ClientLog {
  private static let interval: Duration = .seconds(60)
  private static let limit = 1000
  /// For each interval.
  private static let allowance = 100

  private var last: [String: (time: Loop.Instant, silenced: Int)] = [:]
  private var began = Loop.Instant.now
  private var said = 0
  private var unsaid = 0

  /// Says it, unless the same was said within the last minute.
  mutating func say(
    _ priority: AgentLog.Priority = .warning, _ message: AgentLog.Message? = nil, about key: String,
    _ text: @autoclosure () -> String
  ) {
    let now = Loop.Instant.now
    if began.duration(to: now) >= Self.interval {
      if unsaid > 0 { AgentLog.say(.warning, "\(unsaid) messages about clients were left out: they were too many") }
      (began, said, unsaid) = (now, 0, 0)
    }
    if let earlier = last[key], earlier.time.duration(to: now) < Self.interval {
      last[key] = (earlier.time, earlier.silenced + 1)
      return
    }
    guard said < Self.allowance else {
      if unsaid == 0 { AgentLog.say(.warning, "too many messages about clients: no more of them for a minute") }
      unsaid += 1
      return
    }
    said += 1
    let silenced = last[key]?.silenced ?? 0
    if last.count >= Self.limit { last = [:] }
    last[key] = (now, 0)
    AgentLog.say(priority, message, text() + (silenced > 0 ? " (and \(silenced) times since this was last said)" : ""))
  }
}
