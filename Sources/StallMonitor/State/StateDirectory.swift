import CLinux
import Glibc
import StallCapture

/// A directory in which the monitor keeps files from one run of a service to the next.
///
/// It is opened when the watch starts, and so stays the same one when the host changes its root, its user or its working directory.
final class StateDirectory: Sendable {
  /// Why a directory cannot be used.
  struct Failure: Error, Equatable {
    /// An errno value.
    var code: Int32

    var reason: String { String(cString: strerror(code)) }
  }

  let path: String
  /// Whether it lies on tmpfs: files in it can be mapped without a thread ever waiting for a disk, or dying of a full one.
  let isInMemory: Bool
  private let descriptor: Int32
  private let identity: FileIdentity

  /// Opens a directory that exists.
  init(path: String) throws(Failure) {
    let descriptor = clinux_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard descriptor >= 0, let identity = FileIdentity(descriptor) else { throw Failure(code: errno) }
    self.path = path
    self.descriptor = descriptor
    self.identity = identity
    isInMemory = clinux_is_on_tmpfs(descriptor)
  }

  deinit { identity.close(descriptor) }

  /// Throws unless files can be made in it.
  func checkWritable() throws(Failure) {
    guard faccessat(descriptor, ".", W_OK | X_OK, AT_EACCESS) == 0 else { throw Failure(code: errno) }
  }

  /// Calls `body` with the descriptor, opened anew if the host has closed it.
  func use<Result>(_ body: (Int32) throws(Failure) -> Result) throws(Failure) -> Result {
    if FileIdentity(descriptor) == identity { return try body(descriptor) }
    let anew = clinux_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard anew >= 0 else { throw Failure(code: errno) }
    defer { close(anew) }
    guard FileIdentity(anew) == identity else { throw Failure(code: ENOENT) }
    return try body(anew)
  }
}
