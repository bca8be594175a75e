import Glibc
import LoopEngine

/// Ends the command at SIGINT or SIGTERM, whatever its loop is doing.
///
/// A thread of its own serves them. The loop may be waiting in a system call: for the reader of standard output, or for
/// a file system.
final class StopSignals {
  private let thread = PermanentThread(name: "stop signals")

  /// Begins to serve them; make this before there are other threads, which inherit the blocked signals.
  init(stopping loop: Loop) throws {
    let source = try Loop.SignalSource([SIGINT, SIGTERM], name: "stop signals") { _ in
      loop.stop()
      // If the loop does not wait, it ends the command by then.
      usleep(20_000)
      _exit(0)
    }
    try thread.start()
    try thread.performAndWait { try Loop.current.add(source) }
  }
}
