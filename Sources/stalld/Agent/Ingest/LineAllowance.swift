import LoopEngine

/// How many lines a host may send at once: a bucket that fills up again by the rate, to a burst of four seconds.
///
/// Connections share one if the first of them was closed by its host while there was still something to read of it.
final class LineAllowance {
  private static let burst = 4.0

  private var tokens: Double
  private var refilled: Loop.Instant
  /// Connections that have not given it back.
  var users = 1

  init(rate: Double) {
    tokens = rate * Self.burst
    refilled = .now
  }

  /// Takes lines from the bucket.
  ///
  /// Returns how long nothing more must be read, or nil.
  func take(lines: Int, rate: Double) -> Duration? {
    refill(rate: rate)
    tokens -= Double(lines)
    return tokens < 0 ? .seconds(-tokens / rate) : nil
  }

  /// Limits the debt to another burst: another process may have made it, by lines that were read at once.
  func limitDebt(rate: Double) { tokens = max(tokens, -rate * Self.burst) }

  /// How long it takes until it is full.
  func timeToFill(rate: Double) -> Duration {
    refill(rate: rate)
    return .seconds((rate * Self.burst - tokens) / rate)
  }

  private func refill(rate: Double) {
    let now = Loop.Instant.now
    // A spool that is handed over comes at once.
    tokens = min(rate * Self.burst, tokens + refilled.duration(to: now) / .seconds(1) * rate)
    refilled = now
  }
}
