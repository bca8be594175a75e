import Glibc

/// What a command says besides its data.
enum StandardError {
  /// One line by one write.
  static func say(_ text: String) {
    let line = Array("\(text)\n".utf8)
    _ = write(2, line, line.count)
  }
}
