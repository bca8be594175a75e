import CLinux
import DescriptorIO
import PlatformLibc
import StallCapture

/// A directory in which the monitor keeps files from one run of a service to the next.
///
/// It is opened when the watch starts, and so stays the same one when the service changes its root, its user or its working directory.
final class StateDirectory: Sendable {
  /// Why a directory cannot be used.
  struct Failure: Error, Equatable {
    /// An errno value.
    var code: Int32
    /// The path that it is about, if that is not the directory's.
    var path: String?

    var reason: String { (path.map { "\($0): " } ?? "") + String(cString: strerror(code)) }
  }

  let path: String
  /// Whether it lies on tmpfs: files in it can be mapped without a thread ever waiting for a disk, or dying of a full one.
  let isInMemory: Bool
  private let descriptor: GuardedDescriptor

  /// Opens a directory that exists.
  init(path: String) throws(Failure) {
    let number = clinux_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard number >= 0, let descriptor = GuardedDescriptor(number) else { throw Failure(code: errno) }
    self.path = path
    self.descriptor = descriptor
    isInMemory = clinux_is_on_tmpfs(number)
  }

  deinit { descriptor.close() }

  /// Throws unless files can be made in it.
  func checkWritable() throws(Failure) {
    guard faccessat(descriptor.number, ".", W_OK | X_OK, AT_EACCESS) == 0 else { throw Failure(code: errno) }
  }

  /// Calls `body` with the descriptor, reopened if the service has closed it.
  func use<Result>(_ body: (Int32) throws(Failure) -> Result) throws(Failure) -> Result {
    if descriptor.isIntact { return try body(descriptor.number) }
    let again = clinux_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
    guard again >= 0 else { throw Failure(code: errno) }
    defer { close(again) }
    guard descriptor.isSameFile(as: again) else { throw Failure(code: ENOENT) }
    return try body(again)
  }
}
