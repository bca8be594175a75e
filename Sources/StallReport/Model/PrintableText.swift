extension String {
  /// The text with each character that a terminal acts on, or that cannot be seen, written as `\u{1b}`.
  ///
  /// For text of other users on its way to a terminal or a log: nothing in it moves the cursor, changes colours or turns the direction
  /// of writing.
  package var printable: String {
    if utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) { return self }
    var result = ""
    for scalar in unicodeScalars {
      if scalar.isPrintable {
        result.unicodeScalars.append(scalar)
      } else {
        result += "\\u{" + String(scalar.value, radix: 16) + "}"
      }
    }
    return result
  }

  /// The same of the first `limit` characters, with `…` at its end if there are more.
  package func printable(limit: Int) -> String {
    let start = unicodeScalars.prefix(limit)
    return String(start).printable + (start.endIndex < endIndex ? "…" : "")
  }
}

extension Unicode.Scalar {
  /// Whether the character is seen, and a terminal does not act on it.
  package var isPrintable: Bool {
    if isASCII { return value >= 0x20 && value != 0x7f }
    switch properties.generalCategory {
    // Direction marks, joiners and tags are among the formats; unassigned ones may become anything.
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: return false
    default: return !properties.isDefaultIgnorableCodePoint
    }
  }
}
