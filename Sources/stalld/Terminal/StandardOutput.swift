import ArgumentParser
import Glibc

/// Text for standard output, and the messages beside it.
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
