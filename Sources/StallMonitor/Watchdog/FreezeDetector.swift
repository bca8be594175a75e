import CLinux

/// Tells when the whole process stood still: stopped by a signal, frozen with its control group, held by a debugger, or
/// asleep with a virtual machine.
///
/// The sign is that the watchdog itself woke late. Time in which it was ready to run and got no processor, or in which its group's
/// quota was used up, is something else: the loop may well be stalled by that, and it is told as the cause.
struct FreezeDetector: ~Copyable {
  /// A smaller lateness is the scheduler's everyday business.
  static let limit: UInt64 = 50_000_000

  private let watchdog: ThreadProbe
  private let throttle: ThrottleCounter?
  private var runDelay: UInt64 = 0
  private var throttled: UInt64 = 0

  /// Call it on the watchdog's thread.
  init() {
    watchdog = ThreadProbe(thread: clinux_gettid())
    throttle = ThrottleCounter()
  }

  /// Call it before each wait.
  mutating func willWait() {
    runDelay = watchdog.schedule()?.runDelayNanoseconds ?? 0
    throttled = throttle?.total() ?? 0
  }

  /// For how long the process was frozen, of the time by which a wait ended late; 0 if it was not.
  func frozen(lateness: UInt64) -> UInt64 {
    guard lateness > Self.limit else { return 0 }
    let delayed = (watchdog.schedule()?.runDelayNanoseconds ?? 0) &- runDelay
    let explained = delayed &+ ((throttle?.total() ?? 0) &- throttled)
    return lateness > explained && lateness - explained > Self.limit ? lateness - explained : 0
  }
}
