import LoopEngine

/// The pace at which connections are refused, so that a storm of them costs the agent a part of one processor.
///
/// A process that is always busy waits for its turn on the processor each time, and the lines of services would wait with it.
struct RefusalPace {
  /// Connections that are refused in one interval: 64 000 a second, about half a processor.
  static let limit = 64
  static let interval: Duration = .milliseconds(1)

  private var began = Loop.Instant.distantPast
  private var count = 0

  /// Counts refused connections; returns how long the next ones have to wait, or nil if they can be accepted now.
  mutating func pause(afterRefusing refused: Int, at now: Loop.Instant) -> Duration? {
    let end = began.advanced(by: Self.interval)
    if now >= end { (began, count) = (now, 0) }
    count += refused
    return count >= Self.limit ? now.duration(to: began.advanced(by: Self.interval)) : nil
  }
}
