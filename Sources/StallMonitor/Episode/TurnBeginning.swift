import StallReport

/// What a thread is known to have done in a turn before its counters were first read in it; times in nanoseconds.
///
/// A turn may begin at any time between two checks. What was counted between them, and not in the turn, is of the time before it.
struct TurnBeginning: Equatable {
  /// For how long it was at least ready to run.
  let ready: UInt64
  /// For how long it at least waited.
  let waiting: UInt64

  /// - Parameters:
  ///   - length: How long before the end of `change` the turn began.
  ///   - change: What the kernel counted between the last check before the turn and the first one in it.
  ///   - hasBegunNoWait: Whether the thread has begun no wait meanwhile: one that ended in this time was over before the turn.
  init(length: UInt64, in change: ResourceUsage, hasBegunNoWait: Bool) {
    let before = change.observed > length ? change.observed - length : 0
    func inTurn(_ time: UInt64) -> UInt64 { time > before ? time - before : 0 }
    let readyTime = min(change.readyTime, change.observed)
    ready = hasBegunNoWait ? length : inTurn(readyTime)
    waiting = hasBegunNoWait ? 0 : inTurn(change.observed - readyTime)
  }
}
