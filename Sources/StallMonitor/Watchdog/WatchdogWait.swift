import StallDetection

/// The waits of the watchdog's thread, and the freezes of the process that they show.
///
/// Made on that thread and used by it alone.
final class WatchdogWait {
  /// How long the thread waits at most while a loop is stalled, in nanoseconds: a freeze is known as precisely as this.
  private static let longestInStall: UInt64 = 250_000_000

  private let clock: any WatchdogClock
  private let freezes: any FreezeCounter
  private var freeze: FreezeEvidence.Freeze?
  // When the last wait began, and what had been counted then.
  private var began = Instant.zero
  private var before = FreezeEvidence.Counts()

  init(by clock: any WatchdogClock, freezes: any FreezeCounter) { (self.clock, self.freezes) = (clock, freezes) }

  /// The freeze that the last wait has shown; nil if there was none.
  func takeFreeze() -> FreezeEvidence.Freeze? {
    defer { freeze = nil }
    return freeze
  }

  /// Waits for a post, while there is no memory; what that makes late is not a freeze.
  func waitForMemory(until deadline: Instant) {
    freeze = nil
    _ = clock.wait(until: deadline)
  }

  /// Waits until there is something to do, and judges whether the process was frozen meanwhile.
  ///
  /// - Parameters:
  ///   - loops: All loops.
  ///   - nextCheck: When to check one of them next; nil while none moves.
  ///   - next: When something else is due; nil if nothing is.
  ///   - quiet: The loops that need no watch now.
  func wait(for loops: CheckedLoops, nextCheck: Instant?, next: Instant?, quiet: [WatchedLoop]) {
    if let nextCheck {
      var deadline = min(nextCheck, next ?? .never)
      if loops.all.contains(where: \.isStalled) {
        deadline = min(deadline, clock.now() + Self.longestInStall)
      }
      // The others have a time to be checked at. A post may come at the end of a freeze, long after the deadline.
      if wait(until: deadline, orMoveOf: quiet) != .notNeeded { judge(since: deadline) }
    } else {
      switch wait(until: next, orMoveOf: loops.all) {
      case .notNeeded: break
      case .post: judgeMove(of: loops)
      case .deadline: judge(since: next ?? .never)
      }
    }
  }

  /// How a wait ended.
  private enum End { case notNeeded, post, deadline }

  /// Waits for a post, or for one of these quiet loops to move, or until `deadline`.
  private func wait(until deadline: Instant?, orMoveOf quiet: [WatchedLoop]) -> End {
    let quiet = quiet.filter { !$0.isSuspended }
    for loop in quiet { loop.subject.pulse.requestWake() }
    quiet.first?.subject.pulse.fence()
    defer { for loop in quiet { loop.subject.pulse.cancelWake() } }
    // Against the last check, and not against now: a turn that began in between would never be seen.
    if quiet.contains(where: \.hasMoved) { return .notNeeded }
    // Directly around the wait: whatever else the thread sleeps in, such as a lock of the kernel's, is no freeze.
    before = freezes.counts()
    began = clock.now()
    return clock.wait(until: deadline) ? .post : .deadline
  }

  /// Judges a wait that was to last until `deadline` at most.
  private func judge(since deadline: Instant) {
    let now = clock.now()
    judge(lateness: now.since(max(deadline, began)), of: now.since(began))
  }

  /// Judges a wait that a loop has ended, which moved after it had begun.
  private func judgeMove(of loops: CheckedLoops) {
    // The loop that moved posted as its turn began, so the time since then was not sleep.
    loops.pulseClock.observe()
    let now = clock.now()
    // Without an array: the wait may have been long, and there may be no memory by now.
    var age: UInt64 = 0
    for loop in loops.all { age = max(age, loop.age(at: now)) }
    age = min(age, now.since(began))
    judge(lateness: age, of: age)
  }

  private func judge(lateness: UInt64, of wait: UInt64) {
    freeze = freezes.freeze(since: before, lateness: lateness, of: wait)
  }
}
