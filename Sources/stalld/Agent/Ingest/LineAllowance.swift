import LoopEngine

/// How many lines a host may send at once: a bucket that fills up again by the rate, to a burst of four seconds.
struct LineAllowance {
  private static let burst = 4.0

  private var tokens: Double
  private var refilled: Loop.Instant

  init(rate: Double) {
    tokens = rate * Self.burst
    refilled = .now
  }

  /// Takes lines from the bucket.
  ///
  /// Returns how long nothing more must be read, or nil.
  mutating func take(lines: Int, rate: Double) -> Duration? {
    refill(rate: rate)
    tokens -= Double(lines)
    return tokens < 0 ? .seconds(-tokens / rate) : nil
  }

  /// How long nothing must be read of it yet, or nil.
  mutating func wait(rate: Double) -> Duration? { take(lines: 0, rate: rate) }

  /// Goes over to a new connection, with no more debt than a burst: what is read at once may be many more lines, and others may have sent them.
  func inherited(rate: Double) -> LineAllowance {
    var copy = self
    copy.tokens = max(tokens, -rate * Self.burst)
    return copy
  }

  /// How long it takes until it is full.
  mutating func timeToFill(rate: Double) -> Duration {
    refill(rate: rate)
    return .seconds((rate * Self.burst - tokens) / rate)
  }

  private mutating func refill(rate: Double) {
    let now = Loop.Instant.now
    // A spool that is handed over comes at once.
    tokens = min(rate * Self.burst, tokens + refilled.duration(to: now) / .seconds(1) * rate)
    refilled = now
  }
}
