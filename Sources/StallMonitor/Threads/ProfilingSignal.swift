import CLinux
import PlatformLibc

/// Whether a thread of the monitor's blocks SIGPROF.
///
/// Swift's crash handler stops all threads by that signal. A profiler of the service has a handler for it, which is code of the service: it
/// must not run on a thread of the monitor's, whose descriptors are others. Used by one thread.
struct ProfilingSignal {
  private var isBlocked: Bool
  // The thread that started the monitor blocks it: it is left so.
  private let isLeftBlocked: Bool

  /// Takes the calling thread.
  init() {
    var mask = sigset_t()
    pthread_sigmask(SIG_BLOCK, nil, &mask)
    isBlocked = sigismember(&mask, SIGPROF) == 1
    isLeftBlocked = isBlocked && !Self.isHandled
  }

  /// Whether the process has a handler for the signal.
  static var isHandled: Bool { clinux_has_signal_handler(SIGPROF) }

  /// Blocks the signal on the calling thread while the process has a handler for it; a system call.
  mutating func follow() {
    let isHandled = Self.isHandled
    guard isHandled != isBlocked, !isLeftBlocked else { return }
    isBlocked = isHandled
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, SIGPROF)
    pthread_sigmask(isHandled ? SIG_BLOCK : SIG_UNBLOCK, &set, nil)
  }
}
