import CLinux
import Synchronization

/// A latch that opens once.
///
/// Waiting threads sleep in a futex.
final class Latch: Sendable {
  private let word = Atomic<UInt32>(0)

  func open() {
    word.store(1, ordering: .releasing)
    withUnsafePointer(to: word) { _ = clinux_futex_wake($0, .max) }
  }

  func wait() {
    while word.load(ordering: .acquiring) == 0 {
      withUnsafePointer(to: word) { _ = clinux_futex_wait($0, 0, nil) }
    }
  }
}
