import Glibc

/// What commands print, and the result files that they write instead.
enum StandardOutput {
  /// Writes all bytes.
  ///
  /// Waits for space also if another process has made a shared terminal or pipe non-blocking.
  /// - Throws: The system's error; `EPIPE` if there is no reader any more.
  static func write(_ bytes: [UInt8], to descriptor: Int32 = STDOUT_FILENO) throws(SystemError) {
    var position = 0
    while position < bytes.count {
      let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress! + position, $0.count - position) }
      if count >= 0 {
        position += count
      } else if errno == EAGAIN {
        var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        _ = poll(&entry, 1, -1)
      } else if errno != EINTR {
        throw SystemError(code: errno)
      }
    }
  }

  /// Writes all bytes of a subcommand's result, or ends the process.
  ///
  /// The exit code is 0 if nobody reads any more; otherwise it is 1, with a message.
  static func writeOrExit(_ command: String, _ bytes: [UInt8]) {
    do {
      try write(bytes)
    } catch {
      if error.code != EPIPE { StandardError.say(command, "standard output: \(error)") }
      _exit(error.code == EPIPE ? 0 : 1)
    }
  }
}
