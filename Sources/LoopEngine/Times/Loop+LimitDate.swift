extension Loop {
  /// Makes one pass in a mode without waiting, firing what is due, and says when the loop need be run next.
  ///
  /// On the loop's thread only.
  ///
  /// - Returns: When the mode's next timer is due; `.distantFuture` if it has none but something else to serve; nil if
  ///   it has nothing.
  public func limitDate(for mode: Mode) -> Instant? {
    guard mode != .common else { return nil }
    _ = run(mode, limit: .min, onlyOneSource: false)
    guard let state = findMode(mode.id), !isEmpty(state) else { return nil }
    return nextTimerDate(in: mode) ?? .distantFuture
  }

  /// When the next timer of a mode is due, nil if it has none.
  ///
  /// On the loop's thread only.
  public func nextTimerDate(in mode: Mode) -> Instant? {
    requireOwner()
    absorb()
    guard let state = findMode(mode.id) else { return nil }
    let first = min(state.timers.pointee.firstDeadline, state.isCommon ? commonTimers.pointee.firstDeadline : .max)
    return hasTimers(state) ? Instant(nanoseconds: first) : nil
  }
}
