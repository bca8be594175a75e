import PlatformLibc
import StallReport

extension Timestamp {
  /// The time of the wall clock.
  package static func now() -> Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(seconds: time.tv_sec, nanoseconds: time.tv_nsec)
  }
}
