import CLinux
import Synchronization

/// A lock of one word, for sections of a few instructions.
///
/// Taken and given back inline with one locked instruction each; `Mutex` and pthread mutexes are calls. A waiter spins
/// briefly, then sleeps in a futex.
final class WordLock: Sendable {
  /// 0 free, 1 held, 2 held with sleepers.
  private let word = Atomic<UInt32>(0)

  /// Lets a fork wait for the lock, so that it is free in the child; for one that lives as long as the process.
  func registerForForks() {
    clinux_fork_register_lock(UnsafeMutableRawPointer(mutating: address).assumingMemoryBound(to: UInt32.self))
  }

  @inline(__always)
  func lock() {
    if !word.compareExchange(expected: 0, desired: 1, ordering: .acquiring).exchanged { lockSlowly() }
  }

  @inline(__always)
  func unlock() {
    if word.exchange(0, ordering: .releasing) == 2 { wakeOne() }
  }

  func reset() { word.store(0, ordering: .relaxed) }

  @inline(never)
  private func lockSlowly() {
    for _ in 0..<40
    where word.load(ordering: .relaxed) == 0
      && word.weakCompareExchange(expected: 0, desired: 1, ordering: .acquiring).exchanged
    {
      return
    }
    while word.exchange(2, ordering: .acquiring) != 0 {
      _ = clinux_futex_wait(address, 2, nil)
    }
  }

  @inline(never)
  private func wakeOne() {
    _ = clinux_futex_wake(address, 1)
  }

  /// The word's address is stable: it lives inside this object, whose lifetime the caller holds.
  private var address: UnsafeRawPointer {
    withUnsafePointer(to: word) { UnsafeRawPointer($0) }
  }
}
