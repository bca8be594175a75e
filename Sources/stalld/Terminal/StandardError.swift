import Glibc
import StallReport

/// Messages for people, a line each.
enum StandardError {
  /// Prints a message in the name of a subcommand; text of other users in it is made harmless.
  static func say(_ command: String, _ text: String) {
    say("stalld \(command): \(text.printable)")
  }

  /// One line by one write.
  static func say(_ text: String) {
    let line = Array("\(text)\n".utf8)
    _ = line.withUnsafeBytes { Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
