import ArgumentParser
import Glibc

/// Text for standard output, and what is said beside it.
enum StandardOutput {
  /// Writes the text; a reader that has gone away is no failure.
  static func write(_ text: String) {
    var text = text
    text.withUTF8 { bytes in
      var position = 0
      while position < bytes.count {
        let count = Glibc.write(STDOUT_FILENO, bytes.baseAddress! + position, bytes.count - position)
        if count < 0 {
          if errno == EINTR { continue }
          if errno != EPIPE { StandardError.say("report", "standard output: \(String(cString: strerror(errno)))") }
          _exit(errno == EPIPE ? 0 : 1)
        }
        position += count
      }
    }
  }
}

/// Talk, a line each.
enum StandardError {
  /// Says something in the name of a subcommand; what is a stranger's in it is made harmless.
  static func say(_ command: String, _ text: String) {
    let line = Array("stalld \(command): \(TerminalText.printable(text))\n".utf8)
    _ = line.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
