import CLinux
import Glibc
import StallCapture

/// Puts whole lines onto one destination, and never waits for its reader.
///
/// A line is one write. What the destination does not take now waits in a bounded queue; what does not fit is dropped,
/// oldest first, and counted. Used by one thread, the output thread.
final class LineWriter: ReportSink {
  /// Lines kept while the destination takes none: at most 2 MB.
  static let queueLimit = 256

  private let destination: Destination
  private var descriptor: Int32 = -1
  private var identity: FileIdentity?
  /// The destination is a pipe or a terminal whose writes may wait, since it could not be reopened.
  private var mayWait = false
  private var isPollable = false
  private var queue: [OutgoingLine] = []
  // How much of the first line in the queue has gone out: the reader of a pipe took a part.
  private var sent = 0
  private var droppedSinceTaken: UInt64 = 0

  /// Where lines go.
  enum Destination {
    /// A file of ours, appended to and opened anew when it was renamed or removed.
    case file(path: String)
    /// A descriptor of the host's.
    case descriptor(Int32)
  }

  init(_ destination: Destination) { self.destination = destination }

  deinit { identity?.close(descriptor) }

  /// Opens the destination.
  ///
  /// Returns the errno value if that fails.
  func open() -> Int32? {
    switch destination {
    case .file(let path):
      let flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
      descriptor = clinux_open(path, flags, 0o640)
    case .descriptor(let original):
      (descriptor, mayWait) = Self.openWithoutWaiting(original)
    }
    guard descriptor >= 0 else { return errno }
    identity = FileIdentity(descriptor)
    var status = stat()
    // A regular file is always ready for poll(2), also on a full disk.
    isPollable = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT != S_IFREG
    return nil
  }

  /// The descriptor that poll(2) can wait for until there is room; -1 if there is none.
  var pollableDescriptor: Int32 { isPollable && isIntact ? descriptor : -1 }

  /// How many bytes have gone out; tells whether a flush has achieved anything.
  private(set) var bytesSent = 0

  /// Whether the number still is what was opened.
  private var isIntact: Bool { identity != nil && FileIdentity(descriptor) == identity }

  /// Takes a line, with its newline, and sends what can be sent.
  func write(_ line: OutgoingLine) {
    if queue.count >= Self.queueLimit {
      // The first may be out in part, and must be finished.
      lose(queue.remove(at: sent > 0 ? 1 : 0))
    }
    queue.append(line)
    flush()
  }

  /// Sends what waits, as far as the destination takes it.
  func flush() {
    guard !queue.isEmpty else { return }
    reopenIfNeeded()
    var done = 0
    while done < queue.count, send(queue[done].bytes, of: queue[done]) { done += 1 }
    queue.removeFirst(done)
  }

  var wantsFlush: Bool { !queue.isEmpty }

  var isSettled: Bool { queue.isEmpty }

  func settle(within limit: UInt64) { settle(until: MonotonicClock.now() + limit) }

  /// Sends what waits until nothing is left, or the time has come.
  func settle(until deadline: UInt64) {
    while wantsFlush, MonotonicClock.now() < deadline {
      usleep(10_000)
      flush()
    }
  }

  func close() { flush() }

  func takeDropped() -> UInt64 {
    defer { droppedSinceTaken = 0 }
    return droppedSinceTaken
  }

  // MARK: One line

  private func lose(_ lost: OutgoingLine) { droppedSinceTaken += 1 + lost.droppedBefore }

  private func send(_ line: [UInt8], of outgoing: OutgoingLine) -> Bool {
    // A service that closes all descriptors has closed the destination; nobody will ever read the line.
    guard isIntact else {
      if case .file = destination { return false }
      lose(outgoing)
      sent = 0
      return true
    }
    while sent < line.count {
      if mayWait, !hasRoom { return false }
      let count = line.withUnsafeBytes { bytes in
        var rest = UnsafeRawBufferPointer(rebasing: bytes[sent...])
        // poll(2) promises room for so much of a pipe.
        if mayWait { rest = UnsafeRawBufferPointer(rebasing: rest.prefix(4096)) }
        // A socket (journald's, most often) is told not to wait call by call: its flags are shared with the host.
        let result = Glibc.send(descriptor, rest.baseAddress, rest.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
        if result < 0 && errno == ENOTSOCK { return Glibc.write(descriptor, rest.baseAddress, rest.count) }
        return result
      }
      if count < 0 && errno == EINTR { continue }
      if count < 0 {
        // Full for now, or for good: nobody will ever read what a reader has left.
        guard errno == EPIPE || errno == ECONNRESET || errno == EBADF || errno == ENOTCONN else { return false }
        lose(outgoing)
        sent = 0
        return true
      }
      if count < line.count - sent, case .file = destination, takeBack(count) { return false }
      sent += count
      bytesSent += count
    }
    sent = 0
    return true
  }

  private var hasRoom: Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    return poll(&entry, 1, 0) == 1
  }

  /// A disk that filled up took a part of a line: takes that part off again, so that no reader sees half a line.
  private func takeBack(_ count: Int) -> Bool {
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return false }
    // Another process may have appended since; its line stays.
    let end = lseek(descriptor, 0, SEEK_CUR)
    guard end == status.st_size else { return false }
    return ftruncate(descriptor, end - off_t(count)) == 0
  }

  /// Opens the destination again if it was renamed or removed, or if the service has closed our descriptor.
  private func reopenIfNeeded() {
    switch destination {
    case .descriptor(let original):
      // The service may have closed our number, and not its own.
      if !isIntact, identity != nil, FileIdentity(original) == identity { _ = open() }
    case .file(let path):
      guard !isIntact else { return reopenIfRenamed(path) }
      sent = 0
      _ = open()
    }
  }

  private func reopenIfRenamed(_ path: String) {
    guard sent == 0 else { return }
    var open = stat()
    var named = stat()
    if fstat(descriptor, &open) == 0, stat(path, &named) == 0, open.st_ino == named.st_ino,
      open.st_dev == named.st_dev
    {
      return
    }
    let (old, oldIdentity) = (descriptor, identity)
    if self.open() == nil {
      oldIdentity?.close(old)
    } else {
      // The old file is better than none.
      (descriptor, identity) = (old, oldIdentity)
    }
  }

  /// A descriptor for the same destination whose writes do not wait, without changing the host's own.
  ///
  /// O_NONBLOCK belongs to the open file description, which the host shares: so a pipe or a terminal is opened anew
  /// through procfs. A regular file never waits, and must keep the offset that the host shares with us. A socket cannot be
  /// opened anew, and needs not to be.
  /// Returns the descriptor, -1 with errno if there is none, and whether its writes may wait after all.
  private static func openWithoutWaiting(_ original: Int32) -> (descriptor: Int32, mayWait: Bool) {
    var status = stat()
    guard fstat(original, &status) == 0 else { return (-1, false) }
    let kind = status.st_mode & S_IFMT
    let isPipe = kind == S_IFIFO || kind == S_IFCHR
    if isPipe {
      let reopened = clinux_open("/proc/thread-self/fd/\(original)", O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)
      if reopened >= 0 { return (reopened, false) }
    }
    return (clinux_duplicate(original), isPipe)
  }
}
