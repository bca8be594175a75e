/// When a turn that consists of pieces is checked.
///
/// Only checks distinguish pieces, so two pieces that alternate look like one to checks of the same
/// rhythm. The times are irregular, and a piece counts as late only if many checks, close to each
/// other, have all found it.
package struct PieceChecks {
  /// How many checks a threshold has at first.
  private static let perThreshold: UInt64 = 8
  /// How many it would have at the rate of the second half of the threshold.
  private static let perThresholdAtLast: UInt64 = 256
  /// How many of these must find the same piece before it counts as late.
  private static let confirmations = 64

  /// What part of a threshold may lie between two such checks.
  private static let longestGaps: UInt64 = 64

  private var confirmed = 0
  private var last = Instant.zero
  private var times = IrregularTimes()

  /// Whether the piece has been found often enough to be one.
  var isConfirmed: Bool { confirmed >= Self.confirmations }

  /// How long after a check the next one is due that is to see the end of a stall.
  package static func interval(_ threshold: UInt64) -> UInt64 { max(1, threshold / perThreshold) }

  /// Another piece was found.
  mutating func beginPiece() { confirmed = 0 }

  /// Notes a check that has found the same piece, and returns how long after it the next one is due.
  ///
  /// `age` is that of the piece; `threshold` is how long it may take.
  mutating func interval(at now: Instant, age: UInt64, threshold: UInt64) -> UInt64 {
    defer { last = now }
    guard age >= threshold / 2 else { return irregular(threshold / Self.perThreshold) }
    // Another piece may have hidden in the time in which no processor served the watchdog.
    if now.since(last) > max(threshold / Self.longestGaps, 1) { confirmed = 0 }
    confirmed += 1
    return irregular(threshold / Self.perThresholdAtLast)
  }

  /// Between a half of the interval and all of it, and at least 1.
  private mutating func irregular(_ interval: UInt64) -> UInt64 {
    max(1, times.next(interval - interval / 2, interval))
  }
}
