import CLinux
import PlatformLibc
import StallCapture

/// Ends this process as a crash.
enum ProcessAbort {
  /// How long the stalled thread may take to come to the signal, in nanoseconds.
  private static let grace: UInt64 = 1_000_000_000

  static func happen(for thread: Int32) -> Never {
    // A handler that returns, as Swift's crash handler does, would let the thread continue, in a
    // call that fails with EINTR.
    signal(SIGABRT, SIG_DFL)
    // To the stalled thread, so that debuggers show that one first.
    if clinux_signal_thread(getpid(), thread, SIGABRT) == 0 {
      let deadline = MonotonicClock.now() + grace
      while MonotonicClock.now() < deadline { usleep(10_000) }
    }
    // The signal is blocked there.
    abort()
  }
}
