import LoopEngine

/// Tokens that arrive at a rate, up to a burst of four seconds' worth, and at least one.
struct TokenBucket {
  // A spool that is handed over comes at once.
  private static func burst(_ rate: Double) -> Double { max(1, 4 * rate) }
  /// What a line of that many bytes, or fewer, costs.
  static let bytesPerToken = 8 << 10

  private var tokens: Double
  private var refilled: Loop.Instant

  /// A full one.
  init(rate: Double) {
    tokens = Self.burst(rate)
    refilled = .now
  }

  /// The number of tokens that a line costs: one for each 8 KiB that it has begun.
  static func cost(ofBytes count: Int) -> Double { Double(max(1, (count + bytesPerToken - 1) / bytesPerToken)) }

  /// Whether a line may be taken; a long one may leave a debt.
  var hasToken: Bool { tokens >= 1 }

  mutating func take(_ count: Double) { tokens -= count }

  /// Adds what has arrived since the last call.
  mutating func refill(rate: Double, at now: Loop.Instant = .now) {
    tokens = min(Self.burst(rate), tokens + Double(now.nanoseconds - refilled.nanoseconds) / 1e9 * rate)
    refilled = now
  }

  func isFull(rate: Double) -> Bool { tokens >= Self.burst(rate) }

  /// How long it takes until that many tokens are there.
  func time(until count: Double, rate: Double) -> Duration { .seconds(max(0, count - tokens) / rate) }
}
