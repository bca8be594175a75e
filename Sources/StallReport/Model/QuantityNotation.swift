/// A decimal number and its unit: `64MiB`, ` 1.5 s `.
package enum QuantityNotation {
  /// The two parts, without the spaces around them; nil if the text begins with no number.
  package static func split(_ text: String) -> (number: Double, unit: String)? {
    let trimmed = text.drop { $0 == " " }
    let digits = trimmed.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    guard let number = Double(digits), number.isFinite else { return nil }
    var unit = trimmed.dropFirst(digits.count).drop { $0 == " " }
    while unit.last == " " { unit.removeLast() }
    return (number, String(unit))
  }
}
