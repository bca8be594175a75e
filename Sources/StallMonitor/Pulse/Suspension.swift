import Synchronization

/// Whether a loop's turns are to be overlooked for now, because whoever pauses the watch knows that they are slow.
final class Suspension: Sendable {
  private let depth = Atomic<Int>(0)
  private let resumed = Atomic<UInt64>(0)

  /// Overlooks turns until as many calls of ``end()`` have been made.
  func begin() { depth.add(1, ordering: .sequentiallyConsistent) }

  /// Takes one `begin` back.
  ///
  /// False if there is none: then no turn is forgiven.
  func end() -> Bool {
    var current = depth.load(ordering: .relaxed)
    while current > 0 {
      // Before the count: a thread that sees no pause left also sees the time.
      resumed.store(MonotonicClock.now(), ordering: .relaxed)
      let (exchanged, original) = depth.compareExchange(
        expected: current, desired: current - 1, ordering: .sequentiallyConsistent)
      if exchanged { return true }
      current = original
    }
    return false
  }

  /// Whether turns are overlooked now.
  var isActive: Bool { depth.load(ordering: .acquiring) > 0 }

  /// When it last ended; no turn is timed from before.
  var resumedAt: UInt64 { resumed.load(ordering: .relaxed) }
}
