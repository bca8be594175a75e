import StallReport

/// What a thread is known to have done in a turn before its counters were first read in it; times in nanoseconds.
///
/// A turn may begin at any time between two checks. What was counted between them, and not in the turn, is of the time before it.
package struct TurnBeginning: Equatable, Sendable {
  /// For how long it was at least ready to run.
  package let ready: UInt64
  /// For how long it at least waited.
  package let waiting: UInt64
  /// Whether the thread waited for a processor at the end: the kernel counts that wait when it is over.
  package let endsQueued: Bool

  /// - Parameters:
  ///   - length: How long before the end of `change` the turn began.
  ///   - change: What the kernel counted between the last check before the turn and the first one in it; nil if that is not known.
  ///   - hasBegunNoWait: Whether the thread has begun no wait meanwhile: one that ended in this time was over before the turn.
  ///   - endsQueued: Whether the thread waited for a processor at the end.
  package init(length: UInt64, in change: ResourceUsage?, hasBegunNoWait: Bool, endsQueued: Bool = false) {
    self.endsQueued = endsQueued
    guard let change else {
      (ready, waiting) = (0, 0)
      return
    }
    let before = change.observed > length ? change.observed - length : 0
    func inTurn(_ time: UInt64) -> UInt64 { time > before ? time - before : 0 }
    let readyTime = min(change.readyTime, change.observed)
    ready = hasBegunNoWait ? length : inTurn(readyTime)
    waiting = hasBegunNoWait || endsQueued ? 0 : inTurn(change.observed - readyTime)
  }
}
