import PlatformLibc
import StallCapture
import Synchronization

/// The monitor's own messages: to the log that the service handed in; without one to standard error, one line each, and only when something is
/// wrong.
enum Diagnostics {
  // One monitor watches a process.
  private static let courier = Mutex<(any NoteCarrier)?>(nil)

  /// Has messages carried by `new` from now on, unless another carrier of this process carries them.
  static func hand(to new: (any NoteCarrier)?) {
    courier.withLock { if $0?.isInOwnProcess != true { $0 = new } }
  }

  /// Ends that.
  static func takeBack(from old: any NoteCarrier) {
    courier.withLock { if $0 === old { $0 = nil } }
  }

  /// Logs a problem: to the service's log, or to standard error if there is none.
  ///
  /// Waits for a slow standard error for 20 ms at most, and not at all on a thread that has a
  /// descriptor table of its own.
  static func say(_ text: String) {
    if carry(StateNote(level: .warning, text: text)) { return }
    // A path in it may hold anything.
    let line = Array("stallmonitor: \(String(printable: text.utf8))\n".utf8)
    if OwnThreads.isApart { StandardErrorQueue.put(line) } else { writeToStandardError(line) }
  }

  /// Writes a line to standard error, unless nobody reads it; on a thread of the service's.
  static func writeToStandardError(_ line: [UInt8]) {
    var entry = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    guard poll(&entry, 1, patience) == 1 else { return }
    // poll(2) promises space for so much of a pipe.
    let text = line.prefix(4096)
    withoutPipeSignal { text.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) } }
  }

  /// Makes a call that writes, without the SIGPIPE that would end a service whose standard error nobody reads any more.
  private static func withoutPipeSignal(_ write: () -> Int) {
    var signals = sigset_t()
    var previous = sigset_t()
    var pending = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    sigpending(&pending)
    pthread_sigmask(SIG_BLOCK, &signals, &previous)
    if write() < 0, errno == EPIPE, sigismember(&pending, SIGPIPE) == 0 {
      var now = timespec()
      sigtimedwait(&signals, nil, &now)
    }
    pthread_sigmask(SIG_SETMASK, &previous, nil)
  }

  /// How long a reader of standard error may take to make space, in milliseconds.
  private static let patience: Int32 = 20

  /// Logs the monitor's state, if the service has passed a logger.
  static func note(_ text: String, _ metadata: KeyValuePairs<String, String> = [:]) {
    _ = carry(StateNote(level: .info, text: text, metadata: metadata.map { ($0.key, $0.value) }))
  }

  private static func carry(_ note: StateNote) -> Bool {
    // Only tried: in the child of a fork it may be held by a thread that is not there.
    guard let courier = courier.withLockIfAvailable({ $0 }) ?? nil, courier.isInOwnProcess else { return false }
    return courier.carry(note)
  }
}

extension String {
  /// How many characters must be inserted, deleted or replaced to get `other` (Levenshtein).
  package func distance(to other: String) -> Int {
    let target = Array(other.utf8)
    var row = Array(0...target.count)
    for (i, byte) in utf8.enumerated() {
      var diagonal = row[0]
      row[0] = i + 1
      for j in target.indices {
        let above = row[j + 1]
        row[j + 1] = Swift.min(diagonal + (byte == target[j] ? 0 : 1), row[j] + 1, above + 1)
        diagonal = above
      }
    }
    return row[target.count]
  }
}
