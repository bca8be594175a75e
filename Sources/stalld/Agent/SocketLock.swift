import CLinux
import DescriptorIO
import Glibc

/// The right to listen at a path: a lock on the file `PATH.lock`, which the kernel releases when the process ends.
///
/// A socket between bind(2) and listen(2) refuses connections, as an abandoned one does. Only the lock shows that a process uses it.
/// The file stays empty: the kernel knows which process has the lock, also from another PID namespace.
final class SocketLock: Sendable {
  private let path: String
  private let descriptor: Int32

  /// Where the lock of a socket is.
  static func path(of socket: String) -> String { socket + ".lock" }

  /// Takes the lock without waiting; throws if another process has it, and says which.
  init(of socket: String) throws(StreamListener.Failure) {
    path = Self.path(of: socket)
    while true {
      let opened = try Self.open(path, for: socket)
      if try Self.take(opened, path, for: socket) {
        descriptor = opened
        return
      }
      close(opened)
    }
  }

  /// Releases it, and removes the file.
  func release() {
    if FileIdentity(path: path) == FileIdentity(descriptor) { unlink(path) }
    close(descriptor)
  }

  private static func open(_ path: String, for socket: String) throws(StreamListener.Failure) -> Int32 {
    let flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
    var opened = clinux_open(path, flags, 0)
    if opened < 0, errno == ENOENT {
      // Others must not open it: who can read it can lock it, too.
      opened = clinux_open(path, flags | O_CREAT | O_EXCL, 0o600)
      if opened < 0, errno == EEXIST { opened = clinux_open(path, flags, 0) }
    }
    let code = opened < 0 ? errno : 0
    var status = stat()
    if lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
      if opened >= 0 { close(opened) }
      throw StreamListener.Failure(place: socket, reason: "\(path) is not a regular file; remove it")
    }
    // A lock is empty, and is removed at the end.
    if opened >= 0, status.st_size > 0 {
      close(opened)
      throw StreamListener.Failure(
        place: socket, reason: "\(path) has content, so it is another program's file; move it, or use another path")
    }
    guard opened >= 0 else {
      var reason = "cannot open \(path): \(SystemError(code: code))"
      if code == EACCES, status.st_mode != 0 {
        reason += "; it belongs to user \(status.st_uid): remove it if no agent of that user runs"
      }
      throw StreamListener.Failure(place: socket, reason: reason)
    }
    return opened
  }

  /// False if the process that had it has just released it, and removed the file.
  private static func take(
    _ opened: Int32, _ path: String, for socket: String
  ) throws(StreamListener.Failure) -> Bool {
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    if fcntl(opened, F_SETLK, &lock) == 0 { return FileIdentity(path: path) == FileIdentity(opened) }
    let code = errno
    if code == EAGAIN || code == EACCES, fcntl(opened, F_GETLK, &lock) == 0 {
      if lock.l_type == F_UNLCK { return false }
      close(opened)
      throw StreamListener.Failure(
        place: socket, reason: "\(StreamListener.name(of: lock.l_pid)) listens there; end it, or use another path")
    }
    close(opened)
    throw StreamListener.Failure(place: socket, reason: "cannot lock \(path): \(SystemError(code: code))")
  }
}
