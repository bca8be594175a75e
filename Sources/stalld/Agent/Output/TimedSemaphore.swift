import CLinux
import Glibc

/// A semaphore whose wait may end without it.
final class TimedSemaphore: @unchecked Sendable {
  // @unchecked: the kernel's semaphore is made to be shared; the pointer never changes.
  private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  init() { sem_init(semaphore, 0, 0) }

  deinit {
    sem_destroy(semaphore)
    semaphore.deallocate()
  }

  func post() { sem_post(semaphore) }

  /// False if the time is over.
  func wait(for limit: Duration) -> Bool {
    var deadline = timespec()
    clock_gettime(CLOCK_MONOTONIC, &deadline)
    let (seconds, attoseconds) = max(limit, .zero).components
    let nanoseconds = deadline.tv_nsec + Int(attoseconds / 1_000_000_000)
    deadline.tv_sec += Int(min(seconds, 1 << 31)) + nanoseconds / 1_000_000_000
    deadline.tv_nsec = nanoseconds % 1_000_000_000
    while clinux_semaphore_wait_until(semaphore, &deadline) != 0 { if errno != EINTR { return false } }
    return true
  }
}
