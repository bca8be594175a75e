import LoopEngine

/// Log lines about strangers, at most one a minute for each of them and each kind: a client must not fill the journal.
struct Complaints {
  private static let interval: Duration = .seconds(60)
  private static let limit = 1000

  private var last: [String: (time: Loop.Instant, silenced: Int)] = [:]

  /// Says it, unless the same was said within the last minute.
  mutating func say(
    _ priority: AgentLog.Priority = .warning, _ message: AgentLog.Message? = nil, about key: String,
    _ text: @autoclosure () -> String
  ) {
    let now = Loop.Instant.now
    if let earlier = last[key], earlier.time.duration(to: now) < Self.interval {
      last[key] = (earlier.time, earlier.silenced + 1)
      return
    }
    let silenced = last[key]?.silenced ?? 0
    if last.count >= Self.limit { last = [:] }
    last[key] = (now, 0)
    AgentLog.say(priority, message, text() + (silenced > 0 ? " (and \(silenced) times since this was last said)" : ""))
  }
}
