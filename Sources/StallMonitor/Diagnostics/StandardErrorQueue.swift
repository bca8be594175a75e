import CLinux
import DescriptorIO
import PlatformLibc
import StallCapture
import Synchronization

/// Messages for standard error from threads that have a descriptor table of their own, in which number 2 is not the service's.
///
/// A short-lived thread delivers them, so that a standard error that accepts nothing delays neither the watchdog nor a report line. What it
/// cannot deliver waits for ``flush()`` on a thread of the service's.
enum StandardErrorQueue {
  private static let limit = 16

  private struct State {
    var lines: [[UInt8]] = []
    /// Lines wait for ``flush()``: the monitor is being started or ended.
    var isHeld = false
    var isDelivering = false
    /// What standard error was at the start.
    var original: FileIdentity?
    var journal: Journal?
  }

  private static let state = Mutex(State())

  /// systemd's journal, if standard error was connected to it at the start (`JOURNAL_STREAM`, systemd.exec(5)).
  private struct Journal {
    var stream: String
    var identifier: String
    var socket: UnixDatagramSocket
  }

  /// Keeps messages back until ``flush()``, which the caller calls when the monitor has started.
  ///
  /// `journalStream` is the value of `JOURNAL_STREAM`, and `identifier` the name of the service in the journal.
  static func hold(journalStream stream: String, identifier: String) {
    let socket = UnixDatagramSocket(address: "/run/systemd/journal/socket")
    state.withLock { state in
      state.isHeld = true
      state.original = FileIdentity(STDERR_FILENO)
      state.journal = nil
      if let socket, !stream.isEmpty { state.journal = Journal(stream: stream, identifier: identifier, socket: socket) }
    }
  }

  /// Keeps messages back until ``flush()``, which the caller calls when the monitor has ended: the process may end right after.
  static func hold() { state.withLock { $0.isHeld = true } }

  /// Accepts a line with its newline; the newest is dropped if too many wait.
  static func put(_ line: [UInt8]) {
    let mustStart = state.withLock { state in
      guard state.lines.count < limit else { return false }
      state.lines.append(line)
      guard !state.isHeld, !state.isDelivering else { return false }
      state.isDelivering = true
      return true
    }
    guard mustStart else { return }
    guard let thread = try? OwnThreads.start(name: "stall-message", { deliver() }) else {
      return state.withLock { $0.isDelivering = false }
    }
    clinux_thread_detach(thread)
  }

  /// Writes what waits to standard error; on a thread of the service's.
  ///
  /// Messages that the other thread was about to deliver, too: the process may end before it has the processor.
  static func flush() {
    let lines = state.withLock { state in
      state.isHeld = false
      defer { state.lines = [] }
      return state.lines
    }
    for line in lines { Diagnostics.writeToStandardError(line) }
  }

  private static func deliver() {
    while true {
      let next = state.withLock { state in
        state.isDelivering = !state.lines.isEmpty
        return state.isDelivering ? (state.lines.removeFirst(), state.original, state.journal) : nil
      }
      guard let (line, original, journal) = next else { return }
      guard write(line, to: original, journal) else {
        return state.withLock { state in
          state.lines.insert(line, at: 0)
          state.isDelivering = false
        }
      }
    }
  }

  /// False if standard error cannot be reached from this thread.
  private static func write(_ line: [UInt8], to original: FileIdentity?, _ journal: Journal?) -> Bool {
    // The main thread's table, which is the service's. A socket cannot be opened in this way.
    let path = "/proc/self/fd/2"
    var status = stat()
    // The number may be another file's by now. In a regular file the service's own next write would not know of ours.
    guard let original, stat(path, &status) == 0, original == FileIdentity(status),
      status.st_mode & S_IFMT != S_IFREG
    else { return false }
    let descriptor = clinux_open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0)
    if descriptor >= 0 {
      _ = line.withUnsafeBytes { PlatformLibc.write(descriptor, $0.baseAddress, $0.count) }
      close(descriptor)
      return true
    }
    guard let journal, original.journalStream == journal.stream else { return false }
    let text = String(decoding: line.dropLast(), as: UTF8.self)
    return journal.socket.send("PRIORITY=4\nSYSLOG_IDENTIFIER=\(journal.identifier)\nMESSAGE=\(text)\n") == nil
  }
}
