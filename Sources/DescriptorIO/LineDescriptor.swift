import CLinux
import PlatformLibc

/// Writes lines to one descriptor, each in whole, and never waits for the reader.
///
/// A line that was written in part stays the current one: the same line must be offered again until
/// it is written or abandoned. Used by one thread, which has SIGPIPE and SIGXFSZ blocked
/// (``ThreadSignals``): what these would end the process with becomes an error code.
package final class LineDescriptor {
  /// What became of a line.
  package enum Outcome: Equatable {
    case written
    /// Not now: offer it again when ``pollable`` is writable.
    case full
    /// Not now, with an errno value: there is no event that shows when to offer it again. See
    /// ``isEndOfReader(_:)``.
    case failed(Int32)
  }

  private enum Kind {
    /// Each call says that it does not wait, because the descriptor's flags may be shared with others.
    case socket
    /// A pipe or a terminal that was opened with `O_NONBLOCK`.
    case stream
    /// A pipe or a terminal whose flags are shared: poll(2) is asked before each write.
    case sharedStream
    /// A regular file of ours: what a full disk took of a line is cut off again.
    case file
    /// A regular file that others write to: a torn line is completed when there is space again.
    case sharedFile
  }

  /// poll(2) promises space for so much in a pipe.
  private static let certainRoom = 4096

  private var descriptor: GuardedDescriptor
  private var kind: Kind
  /// The descriptor that this is a copy of, or that leads to the same file.
  private let original: Int32?
  /// How much of the current line is written.
  private var sent = 0
  /// How many bytes have gone out.
  package private(set) var bytesWritten = 0

  /// Takes a descriptor over that was opened with `O_NONBLOCK`; nil, with errno, if it is not open.
  package init?(owning number: Int32) {
    var status = stat()
    guard number >= 0, fstat(number, &status) == 0, let descriptor = GuardedDescriptor(number) else { return nil }
    switch status.st_mode & S_IFMT {
    case S_IFREG: kind = .file
    case S_IFSOCK: kind = .socket
    default: kind = .stream
    }
    self.descriptor = descriptor
    original = nil
  }

  /// Writes to where another's descriptor leads, without changing its flags; nil, with errno, if it cannot be used.
  ///
  /// `O_NONBLOCK` belongs to the open file description, which others share: so a pipe or a terminal is opened again through procfs. A
  /// regular file never waits, and must keep the shared offset. A socket cannot be opened again, and need not be.
  ///
  /// `isExclusive` says that nobody else writes to the file if it is a regular one. Only then a torn line is cut off.
  package init?(sharing original: Int32, isExclusive: Bool) {
    guard let (descriptor, kind) = Self.open(original, isExclusive: isExclusive) else { return nil }
    self.descriptor = descriptor
    self.kind = kind
    self.original = original
  }

  deinit { descriptor.close() }

  /// Whether the number still leads to what was opened.
  package var isIntact: Bool { descriptor.isIntact }

  /// Whether the path leads to the file that was opened.
  package func isFile(at path: String) -> Bool { FileIdentity(path: path, followingLinks: true) == descriptor.file }

  /// The descriptor that poll(2) can wait for until there is space; -1 if there is none.
  ///
  /// A regular file is always ready for poll(2), also on a full disk.
  package var pollable: Int32 { kind != .file && kind != .sharedFile && isIntact ? descriptor.number : -1 }

  /// The number, for calls that this type does not make.
  package var number: Int32 { descriptor.number }

  package var isSocket: Bool { kind == .socket }

  /// A part of the line that was offered last is out.
  package var isMidLine: Bool { sent > 0 }

  /// Opens the original again if only our own number was closed.
  ///
  /// Returns whether there is something to write to.
  package func restore() -> Bool {
    if isIntact { return true }
    guard let original, descriptor.isSameFile(as: original),
      let (descriptor, kind) = Self.open(original, isExclusive: self.kind == .file)
    else { return false }
    (self.descriptor, self.kind) = (descriptor, kind)
    return true
  }

  /// Sends a line, or the rest of it.
  package func write(_ line: [UInt8]) -> Outcome {
    while sent < line.count {
      let (count, outcome) = line.withUnsafeBytes { take(UnsafeRawBufferPointer(rebasing: $0[sent...])) }
      sent += count
      if outcome != .written { return outcome }
    }
    sent = 0
    return .written
  }

  /// Abandons the current line; the part that is written stays written.
  package func abandonLine() { sent = 0 }

  /// Whether an error of ``Outcome/failed(_:)`` means that nobody will ever read what is written there.
  package static func isEndOfReader(_ code: Int32) -> Bool { [EPIPE, ECONNRESET, EBADF, ENOTCONN].contains(code) }

  // MARK: One call

  /// Sends bytes of whole lines; returns how many are out, and what became of the next ones.
  ///
  /// A regular file of ours takes them by one write(2). If its disk fills up, the count ends with a
  /// line, unless another writer has appended since.
  package func take(_ bytes: UnsafeRawBufferPointer) -> (count: Int, outcome: Outcome) {
    var done = 0
    while done < bytes.count {
      let count = call(UnsafeRawBufferPointer(rebasing: bytes[done...]))
      if count < 0 {
        let code = errno
        if code == EINTR { continue }
        let isFull = code == EAGAIN || code == EWOULDBLOCK || kind == .socket && code == ENOBUFS
        return (done, isFull ? .full : .failed(code))
      }
      done += count
      bytesWritten += count
      if kind == .file, done < bytes.count { return cutOff(bytes, done) }
    }
    return (done, .written)
  }

  private func call(_ bytes: UnsafeRawBufferPointer) -> Int {
    switch kind {
    case .socket: return send(descriptor.number, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
    case .stream, .file, .sharedFile: return PlatformLibc.write(descriptor.number, bytes.baseAddress, bytes.count)
    case .sharedStream:
      var entry = pollfd(fd: descriptor.number, events: Int16(POLLOUT), revents: 0)
      guard poll(&entry, 1, 0) == 1 else {
        errno = EAGAIN
        return -1
      }
      return PlatformLibc.write(descriptor.number, bytes.baseAddress, min(bytes.count, Self.certainRoom))
    }
  }

  /// Takes the torn line off the end of a file that has taken only the first `done` bytes.
  private func cutOff(_ bytes: UnsafeRawBufferPointer, _ done: Int) -> (count: Int, outcome: Outcome) {
    // A short write does not say why; the rest does.
    let more = PlatformLibc.write(descriptor.number, bytes.baseAddress! + done, 1)
    let code = more < 0 ? errno : ENOSPC
    let torn = done + max(0, more)
    let whole = (bytes[..<done].lastIndex(of: UInt8(ascii: "\n")) ?? -1) + 1
    let isCut = Self.removeLast(torn - whole, from: descriptor.number)
    bytesWritten += (isCut ? whole : torn) - done
    return (isCut ? whole : torn, .failed(code))
  }

  /// Removes the bytes that were written last from the end of a regular file; false if another
  /// writer has appended since.
  package static func removeLast(_ count: Int, from descriptor: Int32) -> Bool {
    if count == 0 { return true }
    var status = stat()
    let end = lseek(descriptor, 0, SEEK_CUR)
    guard fstat(descriptor, &status) == 0, end == status.st_size, ftruncate(descriptor, end - off_t(count)) == 0 else {
      return false
    }
    // Without O_APPEND the next line would leave a hole.
    lseek(descriptor, end - off_t(count), SEEK_SET)
    return true
  }

  // MARK: Opening

  private static func open(_ original: Int32, isExclusive: Bool) -> (GuardedDescriptor, Kind)? {
    var status = stat()
    guard fstat(original, &status) == 0 else { return nil }
    var kind = Kind.stream
    var number: Int32 = -1
    switch status.st_mode & S_IFMT {
    case S_IFSOCK: kind = .socket
    case S_IFREG: kind = isExclusive ? .file : .sharedFile
    default:
      number = clinux_open("/proc/thread-self/fd/\(original)", O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)
      if number < 0 { kind = .sharedStream }
    }
    if number < 0 { number = clinux_duplicate(original) }
    return GuardedDescriptor(number).map { ($0, kind) }
  }
}
