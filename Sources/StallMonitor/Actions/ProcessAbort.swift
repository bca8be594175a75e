import CLinux
import Glibc

/// Ends this process as a crash, with the stalled thread as the one that crashed.
enum ProcessAbort {
  /// How long a handler of the host's may take, in nanoseconds.
  private static let grace: UInt64 = 5_000_000_000
  /// How long the thread may take to come to the signal.
  private static let delivery: UInt64 = 1_000_000_000

  /// Does not return; the thread runs no more of the host's code.
  static func happen(to thread: Int32) -> Never {
    let process = getpid()
    let start = MonotonicClock.now()
    // A crash handler, such as Swift's, prints and comes back, for whoever aborts to signal again. One more is sent while it runs: it stays
    // pending, and takes the thread as soon as the handler returns. Before that the handler must not stop this thread, which it does by SIGPROF.
    var profiling = sigset_t()
    sigemptyset(&profiling)
    sigaddset(&profiling, SIGPROF)
    pthread_sigmask(SIG_BLOCK, &profiling, nil)
    _ = clinux_signal_thread(process, thread, SIGABRT)
    while isPending(in: thread), MonotonicClock.now() - start < delivery { usleep(100) }
    _ = clinux_signal_thread(process, thread, SIGABRT)
    pthread_sigmask(SIG_UNBLOCK, &profiling, nil)
    while MonotonicClock.now() - start < grace {
      _ = clinux_signal_thread(process, thread, SIGABRT)
      usleep(10_000)
    }
    // The signal is blocked or ignored there, or its handler still runs.
    abort()
  }

  /// Whether SIGABRT waits for the thread (proc_pid_status(5), `SigPnd`).
  private static func isPending(in thread: Int32) -> Bool {
    guard let status = ProcFile("/proc/self/task/\(thread)/status") else { return false }
    return status.parse(capacity: 4096) { bytes in
      let key = Array("SigPnd:\t".utf8)
      let starts = bytes.indices.dropLast(key.count + 16)
      guard let start = starts.first(where: { bytes[$0...].starts(with: key) }) else { return false }
      let digits = UnsafeRawBufferPointer(rebasing: bytes[(start + key.count)..<(start + key.count + 16)])
      return (FieldScanner.number(digits, radix: 16) ?? 0) & (1 << Int64(SIGABRT - 1)) != 0
    } ?? false
  }
}
