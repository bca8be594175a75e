import CLinux
import Glibc

/// Standard output: a pipe, a terminal, a file, or the journal's socket; its reader is never waited for.
///
/// For the journal each line has its priority in front, as sd-daemon(3) says. When journald has closed its end, a new stream is
/// opened to it.
final class DescriptorDestination: SingleLineDestination {
  /// poll(2) promises room for so much in a pipe whose writes wait.
  private static let certain = Int(PIPE_BUF)

  let name: String
  private let original: Int32
  private let isJournal: Bool
  private let journalSocket: String
  private var descriptor: Int32 = -1
  private var kind = Kind.waits
  // How much of the line that was tried last is out.
  private var sent = 0

  private enum Kind {
    /// Its flags are shared with others, so each call says that it does not wait.
    case socket
    /// Opened anew without waiting.
    case waitsNot
    /// Could not be opened anew: asked before each write.
    case waits
    /// Takes everything at once, or fails.
    case file
  }

  init(
    _ original: Int32, name: String, journalStream: String? = getenv("JOURNAL_STREAM").map { String(cString: $0) },
    journalSocket: String = JournalStream.path
  ) {
    self.original = original
    self.name = name
    self.journalSocket = journalSocket
    var status = stat()
    isJournal = fstat(original, &status) == 0 && journalStream == "\(status.st_dev):\(status.st_ino)"
  }

  deinit { close() }

  var isMidLine: Bool { sent > 0 }

  func open() throws(OutputError) {
    var status = stat()
    guard fstat(original, &status) == 0 else { throw OutputError(name, code: errno) }
    switch status.st_mode & S_IFMT {
    case S_IFSOCK: kind = .socket
    case S_IFREG: kind = .file
    default:
      // O_NONBLOCK on the description that we were given would be everybody's who has it.
      descriptor = clinux_open("/proc/self/fd/\(original)", O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)
      kind = descriptor >= 0 ? .waitsNot : .waits
    }
    if descriptor < 0 { descriptor = clinux_duplicate(original) }
    guard descriptor >= 0 else { throw OutputError(name, code: errno) }
  }

  func close() {
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
    sent = 0
  }

  /// Opens a new stream to the journal; false with errno.
  private func reconnect() -> Bool {
    guard isJournal else {
      errno = EBADF
      return false
    }
    descriptor = JournalStream.connect(at: journalSocket)
    return descriptor >= 0
  }

  func send(_ line: ReportLine) -> SendResult {
    guard descriptor >= 0 || reconnect() else { return .failed(errno) }
    let bytes = isJournal ? Array((line.isError ? "<3>" : "<4>").utf8) + line.bytes : line.bytes
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes { write(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
      if count < 0 && errno == EINTR { continue }
      if count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) { return .waits(descriptor) }
      if count < 0 {
        let code = errno
        // On a new stream the whole line comes again.
        if isJournal && kind == .socket { close() }
        return .failed(code)
      }
      if kind == .file && count < bytes.count {
        takeBack(count)
        return .failed(ENOSPC)
      }
      sent += count
    }
    sent = 0
    return .sent
  }

  private func write(_ bytes: UnsafeRawBufferPointer) -> Int {
    switch kind {
    case .socket:
      return Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
    case .waitsNot, .file: return Glibc.write(descriptor, bytes.baseAddress, bytes.count)
    case .waits:
      var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
      if poll(&entry, 1, 0) == 0 {
        errno = EAGAIN
        return -1
      }
      return Glibc.write(descriptor, bytes.baseAddress, min(bytes.count, Self.certain))
    }
  }

  /// A disk took a part of a line: off again, unless somebody else has appended since.
  private func takeBack(_ count: Int) {
    var status = stat()
    let end = lseek(descriptor, 0, SEEK_CUR)
    guard fstat(descriptor, &status) == 0, end == status.st_size, ftruncate(descriptor, end - off_t(count)) == 0 else {
      return
    }
    lseek(descriptor, end - off_t(count), SEEK_SET)
  }
}
