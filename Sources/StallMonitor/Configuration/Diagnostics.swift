import Glibc

/// The monitor's own words, on standard error: one line each, by one write, and only when something is wrong.
enum Diagnostics {
  static func say(_ text: String) {
    let line = Array("stallmonitor: \(text)\n".utf8)
    _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }

  /// A text of somebody else's, fit for a terminal.
  static func printable(_ text: String) -> String {
    String(
      String.UnicodeScalarView(
        text.unicodeScalars.prefix(200).map {
          $0.properties.isDefaultIgnorableCodePoint || $0.value < 0x20 || (0x7f..<0xa0).contains($0.value) ? "?" : $0
        }))
  }
}

extension String {
  /// How many characters must be inserted, deleted or replaced to get `other` (Levenshtein).
  package func distance(to other: String) -> Int {
    let target = Array(other.utf8)
    var row = Array(0...target.count)
    for (i, byte) in utf8.enumerated() {
      var diagonal = row[0]
      row[0] = i + 1
      for j in target.indices {
        let above = row[j + 1]
        row[j + 1] = Swift.min(diagonal + (byte == target[j] ? 0 : 1), row[j] + 1, above + 1)
        diagonal = above
      }
    }
    return row[target.count]
  }
}
