import StallCapture
import StallDetection

extension Instant {
  /// The monotonic clock's time.
  static func now() -> Instant { Instant(MonotonicClock.now()) }
}
