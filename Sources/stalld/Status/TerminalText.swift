extension String {
  /// Without what a terminal would act on: whoever may report chooses the names that are shown here.
  var printable: String {
    guard unicodeScalars.contains(where: { !$0.isPrintable }) else { return self }
    var result = ""
    for scalar in unicodeScalars {
      if scalar.isPrintable {
        result.unicodeScalars.append(scalar)
      } else {
        result += "\\u{\(String(scalar.value, radix: 16))}"
      }
    }
    return result
  }

  /// Filled with blanks up to a width, in characters.
  func padded(to width: Int, right: Bool = false) -> String {
    let fill = String(repeating: " ", count: max(0, width - count))
    return right ? fill + self : self + fill
  }
}

extension Unicode.Scalar {
  fileprivate var isPrintable: Bool {
    switch properties.generalCategory {
    // Bidirectional overrides are of the format category, and would make text read as another.
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: false
    default: true
    }
  }
}
