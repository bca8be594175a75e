import CLinux
import PlatformLibc
import StallDetection

/// The time by which the watchdog works, and its waits.
///
/// Belongs to the watchdog's thread.
protocol WatchdogClock: AnyObject {
  func now() -> Instant

  /// Waits for a post, or until `deadline`; true if there was a post. Nil for no deadline.
  func wait(until deadline: Instant?) -> Bool

  /// Sleeps for so many nanoseconds, whatever is posted.
  func sleep(for time: UInt64)
}

/// The monotonic clock, with waits on the semaphore that loops post.
final class SystemClock: WatchdogClock {
  private let semaphore: WakeSemaphore
  private var profilingSignal = ProfilingSignal()

  /// Prepares the calling thread for waits that end in time.
  init(_ semaphore: WakeSemaphore) {
    self.semaphore = semaphore
    clinux_set_timer_slack(1)
    clinux_request_short_slice(false)
    profilingSignal.follow()
  }

  func now() -> Instant { .now() }

  func wait(until deadline: Instant?) -> Bool {
    defer { profilingSignal.follow() }
    if let deadline { return semaphore.wait(until: deadline.nanoseconds) }
    semaphore.wait()
    return true
  }

  func sleep(for time: UInt64) { usleep(UInt32(clamping: time / 1000)) }
}
