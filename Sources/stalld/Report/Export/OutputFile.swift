import Glibc

/// A file that a result goes to; `-` is standard output.
enum OutputFile {
  /// Writes all of it, in place of what was there.
  ///
  /// Throws what the system says; a reader of standard output that has gone away is no failure.
  static func write(_ bytes: [UInt8], to path: String) throws(SystemError) {
    let isStandard = path == "-"
    let descriptor = isStandard ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw SystemError(code: errno) }
    var failure: Int32 = 0
    do {
      try StandardOutput.write(bytes, to: descriptor)
    } catch {
      failure = error.code
    }
    // A full disk may be reported only now.
    if !isStandard, close(descriptor) != 0, failure == 0 { failure = errno }
    if failure != 0, !(isStandard && failure == EPIPE) { throw SystemError(code: failure) }
  }
}
