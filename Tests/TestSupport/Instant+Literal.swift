import StallDetection

extension Instant: ExpressibleByIntegerLiteral {
  package init(integerLiteral nanoseconds: UInt64) { self.init(nanoseconds) }
}

extension TurnWord {
  /// When the turn began, by a pulse whose stamps are monotonic times.
  package var began: Instant { Instant(stamp) }
}
