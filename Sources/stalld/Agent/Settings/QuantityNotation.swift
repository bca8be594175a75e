/// A decimal number and its unit.
enum QuantityNotation {
  static func split(_ text: String) -> (number: Double, unit: String)? {
    let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    guard let number = Double(digits), number.isFinite else { return nil }
    return (number, String(text.dropFirst(digits.count).drop { $0 == " " }))
  }
}
