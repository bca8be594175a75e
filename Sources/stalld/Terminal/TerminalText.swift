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

  /// What takes two columns: East Asian Width W and F (UAX #11), in whole blocks.
  private static let wide: [ClosedRange<UInt32>] = [
    0x1100...0x115f, 0x231a...0x231b, 0x2329...0x232a, 0x23e9...0x23ec, 0x2614...0x2615, 0x2648...0x2653,
    0x26a1...0x26a1, 0x26aa...0x26ab, 0x26bd...0x26be, 0x26c4...0x26c5, 0x2705...0x2705, 0x270a...0x270b,
    0x274c...0x274c, 0x2753...0x2755, 0x2e80...0x303e, 0x3041...0x33ff, 0x3400...0x4dbf, 0x4e00...0x9fff,
    0xa000...0xa4cf, 0xa960...0xa97c, 0xac00...0xd7a3, 0xf900...0xfaff, 0xfe30...0xfe6f, 0xff00...0xff60,
    0xffe0...0xffe6, 0x1f300...0x1f64f, 0x1f680...0x1f6ff, 0x1f7e0...0x1f7eb, 0x1f900...0x1faff, 0x20000...0x3fffd,
  ]
}

extension String {
  /// With blanks up to a number of columns.
  func padded(to columns: Int, right: Bool = false) -> String {
    TerminalText.padded(self, to: columns, onTheRight: !right)
  }
}
