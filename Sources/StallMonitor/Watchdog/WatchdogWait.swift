import StallCapture

/// The waits of the watchdog's thread, and the freezes of the process that they show.
///
/// Made on that thread and used by it alone.
final class WatchdogWait {
  /// How long the thread waits at most while a loop is stalled, in nanoseconds: a freeze is known as precisely as this.
  private static let longestInStall: UInt64 = 250_000_000

  private let semaphore: WakeSemaphore
  private var freezes = FreezeDetector()
  private var freeze: FreezeDetector.Freeze?
  // When the last wait began, and when the thread should be awake after it; nil if any post may end it.
  private var began: UInt64 = 0
  private var planned: UInt64?

  init(on semaphore: WakeSemaphore) { self.semaphore = semaphore }

  /// The freeze that the last wait has shown; nil if there was none.
  func takeFreeze(at now: UInt64) -> FreezeDetector.Freeze? {
    if let planned, now > planned { freeze = freezes.freeze(lateness: now - planned, of: now - began) }
    defer { (planned, freeze) = (nil, nil) }
    return freeze
  }

  /// Waits for a post, while there is no memory; what that makes late is not a freeze.
  func waitForMemory(until deadline: UInt64) {
    (planned, freeze) = (nil, nil)
    _ = semaphore.wait(until: deadline)
  }

  /// Waits until there is something to do, and plans what a freeze is judged by.
  ///
  /// - Parameters:
  ///   - loops: All loops.
  ///   - nextCheck: When to check one of them next; nil while none moves.
  ///   - next: When something else is due; nil if nothing is.
  ///   - quiet: The loops that need no watch now.
  func wait(for loops: CheckedLoops, nextCheck: UInt64?, next: UInt64?, quiet: [WatchedLoop]) {
    freezes.willWait()
    // The time that the watchdog's own work takes does not count as a freeze: lateness counts from
    // the beginning of the wait.
    began = MonotonicClock.now()
    if let nextCheck {
      var deadline = min(nextCheck, next ?? .max)
      if loops.all.contains(where: \.isStalled) { deadline = min(deadline, began + Self.longestInStall) }
      // The others have a time to be checked at. A post may come at the end of a freeze, long after the deadline.
      _ = wait(until: deadline, orMoveOf: quiet)
      planned = max(deadline, began)
    } else if let age = park(loops, until: next) {
      freeze = freezes.freeze(lateness: age, of: age)
    } else if let next {
      planned = max(next, began)
    }
  }

  /// Waits for a post, or for one of these quiet loops to move, or until `deadline`.
  ///
  /// False if the deadline came first.
  private func wait(until deadline: UInt64?, orMoveOf quiet: [WatchedLoop]) -> Bool {
    let quiet = quiet.filter { !$0.isSuspended }
    for loop in quiet { loop.subject.pulse.requestWake() }
    quiet.first?.subject.pulse.fence()
    defer { for loop in quiet { loop.subject.pulse.cancelWake() } }
    // Against the last check, and not against now: a turn that began in between would never be seen.
    if quiet.contains(where: \.hasMoved) { return true }
    if let deadline { return semaphore.wait(until: deadline) }
    semaphore.wait()
    return true
  }

  /// Waits for any loop to move, or until `deadline`.
  ///
  /// Returns how long ago a loop moved, of the time since the wait began; nil if the deadline came first.
  private func park(_ loops: CheckedLoops, until deadline: UInt64?) -> UInt64? {
    guard wait(until: deadline, orMoveOf: loops.all) else { return nil }
    // The loop that moved posted as its turn began, so the time since then was not sleep.
    loops.clock.observe()
    let now = MonotonicClock.now()
    // Without an array: the wait may have been long, and there may be no memory by now.
    var age: UInt64 = 0
    for loop in loops.all { age = max(age, loop.age(at: now)) }
    return min(age, now - began)
  }
}
