import StallDetection
import Synchronization

/// Whether turns are ignored for now: the service knows that they are slow, or an agent has switched the watch off.
///
/// A monitor has one for all its loops, and each loop has one within that.
final class Suspension: Sendable {
  private let outer: Suspension?
  private let depth = Atomic<Int>(0)
  // Separate from the count: a pause or resume by the service does not change what the agent has requested.
  private let isSwitchedOff = Atomic<Bool>(false)
  private let resumed = Atomic<UInt64>(0)

  /// A suspension of all loops, or of one loop, which those of `outer` hold for, too.
  init(within outer: Suspension? = nil) { self.outer = outer }

  /// Ignores turns until as many calls of ``end()`` have been made.
  func begin() { depth.add(1, ordering: .sequentiallyConsistent) }

  /// Takes one `begin` back.
  ///
  /// False if there is none: then no turn is forgiven.
  func end(at now: Instant = .now()) -> Bool {
    var current = depth.load(ordering: .relaxed)
    while current > 0 {
      // Before the count: a thread that sees no pause left also sees the time.
      resume(at: now)
      let (exchanged, original) = depth.compareExchange(
        expected: current, desired: current - 1, ordering: .sequentiallyConsistent)
      if exchanged { return true }
      current = original
    }
    return false
  }

  /// Ignores turns until ``switchOn()``, also if the service pauses and resumes.
  func switchOff() { isSwitchedOff.store(true, ordering: .sequentiallyConsistent) }

  /// Takes ``switchOff()`` back.
  func switchOn() {
    resume(at: .now())
    isSwitchedOff.store(false, ordering: .sequentiallyConsistent)
  }

  // Never backwards: of two threads, the one that read the clock first may be here last.
  private func resume(at now: Instant) { _ = resumed.max(now.nanoseconds, ordering: .relaxed) }

  /// Whether turns are ignored now.
  var isActive: Bool {
    depth.load(ordering: .acquiring) > 0 || isSwitchedOff.load(ordering: .acquiring) || outer?.isActive == true
  }

  /// When it last ended; no turn is timed from before.
  var resumedAt: Instant { max(Instant(resumed.load(ordering: .relaxed)), outer?.resumedAt ?? .zero) }
}
