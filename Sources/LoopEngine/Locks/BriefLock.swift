import CLinux
import Synchronization

/// A lock for sections of a few nanoseconds, taken with one locked instruction and given back with a plain store.
///
/// A release wakes no waiter. A waiter that has spun without success (the holder was preempted
/// within its few instructions) sleeps in a futex for at most a tenth of a millisecond and tries
/// again: a holder of lower priority can run meanwhile, which spinning would prevent.
final class BriefLock: Sendable {
  private let word = Atomic<UInt32>(0)

  @inline(__always)
  func lock() {
    if !word.compareExchange(expected: 0, desired: 1, ordering: .acquiring).exchanged { lockSlowly() }
  }

  @inline(__always)
  func unlock() {
    word.store(0, ordering: .releasing)
  }

  /// The word, for a fork to take (see `fork.h`): it lives inside this object, whose lifetime the caller holds.
  var address: UnsafeMutablePointer<UInt32> {
    withUnsafePointer(to: word) { UnsafeMutableRawPointer(mutating: $0).assumingMemoryBound(to: UInt32.self) }
  }

  /// Releases the lock in the child of a fork, even if another thread of the parent held it.
  func reset() {
    word.store(0, ordering: .relaxed)
  }

  @inline(never)
  private func lockSlowly() {
    while true {
      for _ in 0..<100
      where word.load(ordering: .relaxed) == 0
        && word.weakCompareExchange(expected: 0, desired: 1, ordering: .acquiring).exchanged
      {
        return
      }
      var pause = timespec(tv_sec: 0, tv_nsec: 100_000)
      withUnsafePointer(to: word) { _ = clinux_futex_wait($0, 1, &pause) }
    }
  }
}
