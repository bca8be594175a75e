import CLinux
import Synchronization

/// A latch that opens once.
///
/// Waiting threads sleep in a futex.
final class Latch: @unchecked Sendable {
  // @unchecked: the word is atomic, and the rest of the memory constant.
  private let memory = UnsafeMutablePointer<clinux_awaited>.allocate(capacity: 1)
  private let word: UnsafeMutablePointer<Atomic<UInt32>>

  /// Makes a latch that this thread will open; 0 if it is not known.
  init(openedBy thread: Int32 = 0) {
    let address = UInt64(UInt(bitPattern: memory))
    memory.initialize(to: clinux_awaited(word: 0, thread: thread, mark: clinux_awaited_mark(address)))
    word = UnsafeMutableRawPointer(memory).assumingMemoryBound(to: Atomic<UInt32>.self)
  }

  deinit {
    // Memory that is used again must not look like a wait.
    memory.pointee.mark = 0
    memory.deallocate()
  }

  func open() {
    word.pointee.store(1, ordering: .releasing)
    _ = clinux_futex_wake(word, .max)
  }

  /// Waits for at most so many nanoseconds; false if the latch has not opened by then.
  func wait(atMost nanoseconds: Int64) -> Bool {
    let deadline = clinux_monotonic() + nanoseconds
    while word.pointee.load(ordering: .acquiring) == 0 {
      let remaining = deadline - clinux_monotonic()
      if remaining <= 0 { return false }
      var time = timespec(tv_sec: Int(remaining / 1_000_000_000), tv_nsec: Int(remaining % 1_000_000_000))
      _ = clinux_futex_wait(word, 0, &time)
    }
    return true
  }

  func wait() {
    while word.pointee.load(ordering: .acquiring) == 0 { _ = clinux_futex_wait(word, 0, nil) }
  }
}
