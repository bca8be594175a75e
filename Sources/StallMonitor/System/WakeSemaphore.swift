import CLinux
import PlatformLibc
import StallCapture

/// A POSIX semaphore, which the watchdog parks on.
///
/// Posting takes no lock and allocates nothing, and is a system call only when a thread waits.
package final class WakeSemaphore: Sendable {
  // A C object with an address of its own; sem_post and sem_wait are its synchronization.
  nonisolated(unsafe) private let semaphore: UnsafeMutablePointer<sem_t>

  package init() {
    semaphore = .allocate(capacity: 1)
    sem_init(semaphore, 0, 0)
  }

  deinit {
    sem_destroy(semaphore)
    semaphore.deallocate()
  }

  package func post() {
    sem_post(semaphore)
  }

  /// Waits for a post.
  func wait() {
    clinux_fork_monitor_thread_rests()
    defer { clinux_fork_monitor_thread_works() }
    while sem_wait(semaphore) != 0 && errno == EINTR {}
  }

  /// Waits for a post, for at most `limit`.
  ///
  /// True if it was posted.
  package func wait(for limit: Duration) -> Bool {
    let (deadline, isBeyond) = MonotonicClock.now().addingReportingOverflow(limit.nanoseconds)
    return wait(until: isBeyond ? .max : deadline)
  }

  /// Waits for a post, or until the monotonic time is `deadline`.
  ///
  /// True if it was posted.
  func wait(until deadline: UInt64) -> Bool {
    var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
    clinux_fork_monitor_thread_rests()
    defer { clinux_fork_monitor_thread_works() }
    while true {
      if clinux_semaphore_wait_until(semaphore, &time) == 0 { return true }
      if errno != EINTR { return false }
    }
  }
}
