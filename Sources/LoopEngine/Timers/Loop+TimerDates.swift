extension Loop {
  /// Makes one pass in a mode without waiting, and fires what is due.
  ///
  /// The date that it returns does not show whether more work is ready, such as a second idle closure. On the loop's thread only.
  ///
  /// - Returns: When the mode's next timer is due; `.distantFuture` if it has none but something else to serve; nil if
  ///   it has nothing.
  public func runPass(in mode: Mode) -> Instant? {
    guard mode != .common, requireOwner() else { return nil }
    _ = run(mode, limit: .min, onlyOneSource: false)
    guard let state = findMode(mode.id), !isEmpty(state) else { return nil }
    return nextTimerDate(in: mode) ?? .distantFuture
  }

  /// When the next timer of a mode is due, nil if it has none.
  ///
  /// On another thread than the loop's, timers that other threads have added count; dates that they have set count when the loop next turns.
  public func nextTimerDate(in mode: Mode) -> Instant? {
    if isOwnerOrNow { absorb() }
    guard mode != .common, !hasEnded, let state = knownModes.withLock({ $0.state(of: mode.id) }) else {
      return nil
    }
    var first = min(state.firstDeadline, state.isCommon ? commonItems.firstDeadline : .max)
    if !isOwner {
      let modes = state.isCommon ? [mode.id, Mode.common.id] : [mode.id]
      first = min(first, memberships.withLock { $0.firstTimer(in: modes) })
    }
    if first == .max { return isOwner && hasTimers(state) ? .distantFuture : nil }
    return Instant(nanoseconds: first)
  }
}
