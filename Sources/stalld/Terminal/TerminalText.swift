import Glibc
import StallReport

/// Text for a terminal: its width, and JSON that a terminal does not act on; other text is made so by `String.printable`.
enum TerminalText {
  /// A line of JSON for standard output: as it is, and on a terminal with what that acts on as escapes.
  static func json(_ line: [UInt8]) -> [UInt8] {
    isatty(STDOUT_FILENO) == 1 ? Array(printableJSON(String(decoding: line, as: UTF8.self)).utf8) : line
  }

  /// JSON text with each character that is not printable as an escape; strings are the only place for such characters.
  static func printableJSON(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      guard !scalar.isPrintable, scalar != "\n" else {
        result.unicodeScalars.append(scalar)
        continue
      }
      for unit in String(scalar).utf16 {
        let digits = String(unit, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
      }
    }
    return result
  }

  /// How many columns printable text takes.
  static func width(_ text: String) -> Int {
    text.unicodeScalars.reduce(0) { $0 + width($1) }
  }

  /// The text cut to a number of columns, with `…` at its end if something is missing.
  static func cut(_ text: String, to columns: Int) -> String {
    guard width(text) > columns else { return text }
    var result = ""
    var left = columns - 1
    for scalar in text.unicodeScalars {
      left -= width(scalar)
      if left < 0 { break }
      result.unicodeScalars.append(scalar)
    }
    return result + "…"
  }

  /// The text with blanks to a number of columns, before it or behind it.
  static func padded(_ text: String, to columns: Int, onTheRight: Bool = false) -> String {
    let blanks = String(repeating: " ", count: max(0, columns - width(text)))
    return onTheRight ? text + blanks : blanks + text
  }

  private static func width(_ scalar: Unicode.Scalar) -> Int {
    if scalar.isASCII { return 1 }
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .enclosingMark: return 0
    default: return wide.contains { $0.contains(scalar.value) } ? 2 : 1
    }
  }
}

extension String {
  /// With blanks up to a number of columns.
  func padded(to columns: Int, right: Bool = false) -> String {
    TerminalText.padded(self, to: columns, onTheRight: !right)
  }
}
