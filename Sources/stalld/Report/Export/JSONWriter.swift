/// Writes JSON piece by piece (RFC 8259).
///
/// What would end a script of a page or a line (`<`, `>`, `&`, U+2028, U+2029) is written as an escape, so that the text can stand in HTML as it is.
struct JSONWriter {
  private(set) var bytes: [UInt8] = []
  private var needsComma = false

  /// An object of what `body` writes, alternately ``key(_:)`` and a value.
  mutating func object(_ body: (inout JSONWriter) -> Void) { nest("{", "}", body) }

  mutating func array(_ body: (inout JSONWriter) -> Void) { nest("[", "]", body) }

  /// An array of a value for each element.
  mutating func array<S: Sequence>(_ elements: S, _ body: (inout JSONWriter, S.Element) -> Void) {
    array { for element in elements { body(&$0, element) } }
  }

  mutating func array(_ numbers: some Sequence<some BinaryInteger>) { array(numbers) { $0.value($1) } }

  /// The name of the next value.
  mutating func key(_ name: String) {
    value(name)
    bytes.append(UInt8(ascii: ":"))
    needsComma = false
  }

  mutating func value(_ number: some BinaryInteger) { piece(String(number)) }

  mutating func value(_ flag: Bool) { piece(flag ? "true" : "false") }

  mutating func null() { piece("null") }

  /// A number with three decimals at most; 0 if it is none.
  mutating func value(_ number: Double) {
    guard number.isFinite, abs(number) < 1e15 else { return piece("0") }
    let thousandths = Int64((number * 1000).rounded())
    let (whole, rest) = (thousandths.magnitude / 1000, thousandths.magnitude % 1000)
    var text = (thousandths < 0 ? "-" : "") + String(whole)
    if rest != 0 {
      text += "." + String(repeating: "0", count: rest < 10 ? 2 : rest < 100 ? 1 : 0) + String(rest)
      while text.utf8.last == UInt8(ascii: "0") { text.removeLast() }
    }
    piece(text)
  }

  /// A number, or null.
  mutating func value(_ number: Double?) { if let number { value(number) } else { null() } }

  mutating func value(_ text: String) {
    separate()
    bytes.append(UInt8(ascii: "\""))
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\":
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(UInt8(ascii: scalar))
      case "<", ">", "&", "\u{2028}", "\u{2029}", "\u{0}"..<"\u{20}", "\u{7f}":
        let digits = String(scalar.value, radix: 16)
        bytes += "\\u".utf8
        bytes += String(repeating: "0", count: 4 - digits.utf8.count).utf8
        bytes += digits.utf8
      default: bytes += UTF8.encode(scalar)!
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  /// A value that another writer has written.
  mutating func written(_ other: JSONWriter) {
    separate()
    bytes += other.bytes
  }

  private mutating func nest(_ open: String, _ close: String, _ body: (inout JSONWriter) -> Void) {
    separate()
    bytes += open.utf8
    needsComma = false
    body(&self)
    bytes += close.utf8
    needsComma = true
  }

  private mutating func piece(_ text: String) {
    separate()
    bytes += text.utf8
  }

  private mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }
}
