/// A JSON text (RFC 8259) as what is where in it, so that a part can be replaced and the rest stays as it is written.
///
/// Numbers are never read as numbers: `1.50` stays `1.50`.
package struct JSONText {
  /// A value, and the bytes that it takes.
  package indirect enum Value {
    case object([(key: String, member: Range<Int>, value: Value)], Range<Int>)
    case array([Value], Range<Int>)
    case string(Range<Int>)
    /// A number, `true`, `false` or `null`.
    case literal(Range<Int>)

    package var range: Range<Int> {
      switch self {
      case .object(_, let range), .array(_, let range), .string(let range), .literal(let range): range
      }
    }

    /// The member's value, or nil if this is no object or has none.
    package subscript(_ key: String) -> Value? {
      guard case .object(let members, _) = self else { return nil }
      return members.first { $0.key == key }?.value
    }

    package var elements: [Value]? {
      guard case .array(let elements, _) = self else { return nil }
      return elements
    }
  }

  /// Why a text is not JSON.
  package struct Fault: Error {
    package var reason: String
    /// Counted in bytes from 0.
    package var position: Int
  }

  private static let depthLimit = 32

  package let bytes: [UInt8]
  package private(set) var root: Value

  /// Reads the text.
  ///
  /// Throws ``Fault`` where it is not one JSON value, or nested deeper than 32.
  package init(_ bytes: [UInt8]) throws(Fault) {
    self.bytes = bytes
    root = .literal(0..<0)
    var position = 0
    root = try value(&position, depth: 0)
    skipBlanks(&position)
    guard position == bytes.count else { throw Fault(reason: "more than one value", position: position) }
  }

  /// The text of a string value; nil for every other.
  package func string(_ value: Value?) -> String? {
    guard case .string(let range) = value else { return nil }
    return Self.unescaped(bytes[(range.lowerBound + 1)..<(range.upperBound - 1)])
  }

  package func isTrue(_ value: Value?) -> Bool {
    boolean(value) == true
  }

  /// The value of `true` or `false`; nil for every other.
  package func boolean(_ value: Value?) -> Bool? {
    guard case .literal(let range) = value else { return nil }
    if bytes[range].elementsEqual("true".utf8) { return true }
    return bytes[range].elementsEqual("false".utf8) ? false : nil
  }

  package func integer(_ value: Value?) -> Int? {
    guard case .literal(let range) = value else { return nil }
    return Int(String(decoding: bytes[range], as: UTF8.self))
  }

  // MARK: Reading

  private func skipBlanks(_ position: inout Int) {
    while position < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[position]) { position += 1 }
  }

  private func byte(_ position: Int) -> UInt8 { position < bytes.count ? bytes[position] : 0 }

  private func expect(_ byte: Unicode.Scalar, _ position: inout Int) throws(Fault) {
    guard self.byte(position) == UInt8(ascii: byte) else {
      throw Fault(reason: "\"\(byte)\" is missing", position: position)
    }
    position += 1
  }

  private func value(_ position: inout Int, depth: Int) throws(Fault) -> Value {
    guard depth <= Self.depthLimit else { throw Fault(reason: "nested too deep", position: position) }
    skipBlanks(&position)
    switch byte(position) {
    case UInt8(ascii: "{"): return try object(&position, depth: depth)
    case UInt8(ascii: "["): return try array(&position, depth: depth)
    case UInt8(ascii: "\""): return .string(try string(&position))
    default: return .literal(try literal(&position))
    }
  }

  private func object(_ position: inout Int, depth: Int) throws(Fault) -> Value {
    let start = position
    var members: [(key: String, member: Range<Int>, value: Value)] = []
    position += 1
    skipBlanks(&position)
    if byte(position) != UInt8(ascii: "}") {
      while true {
        skipBlanks(&position)
        let key = try string(&position)
        skipBlanks(&position)
        try expect(":", &position)
        let value = try value(&position, depth: depth + 1)
        members.append(
          (
            Self.unescaped(bytes[(key.lowerBound + 1)..<(key.upperBound - 1)]), key.lowerBound..<value.range.upperBound,
            value
          ))
        skipBlanks(&position)
        guard byte(position) == UInt8(ascii: ",") else { break }
        position += 1
      }
    }
    try expect("}", &position)
    return .object(members, start..<position)
  }

  private func array(_ position: inout Int, depth: Int) throws(Fault) -> Value {
    let start = position
    var elements: [Value] = []
    position += 1
    skipBlanks(&position)
    if byte(position) != UInt8(ascii: "]") {
      while true {
        elements.append(try value(&position, depth: depth + 1))
        skipBlanks(&position)
        guard byte(position) == UInt8(ascii: ",") else { break }
        position += 1
      }
    }
    try expect("]", &position)
    return .array(elements, start..<position)
  }

  private func string(_ position: inout Int) throws(Fault) -> Range<Int> {
    let start = position
    try expect("\"", &position)
    while position < bytes.count {
      switch bytes[position] {
      case UInt8(ascii: "\""):
        position += 1
        return start..<position
      case UInt8(ascii: "\\"):
        let kind = byte(position + 1)
        if kind == UInt8(ascii: "u") {
          guard position + 6 <= bytes.count, bytes[(position + 2)..<(position + 6)].allSatisfy(Self.isHexadecimal)
          else {
            throw Fault(reason: "\\u without four digits", position: position)
          }
          position += 6
        } else {
          guard #""\/bfnrt"#.utf8.contains(kind) else { throw Fault(reason: "no such escape", position: position) }
          position += 2
        }
      case 0..<0x20: throw Fault(reason: "a control character in a string", position: position)
      default: position += 1
      }
    }
    throw Fault(reason: "a string without an end", position: start)
  }

  private func literal(_ position: inout Int) throws(Fault) -> Range<Int> {
    let start = position
    while position < bytes.count, Self.isPartOfLiteral(bytes[position]) { position += 1 }
    let text = bytes[start..<position]
    if ["true", "false", "null"].contains(where: { text.elementsEqual($0.utf8) }) || Self.isNumber(text) {
      return start..<position
    }
    throw Fault(reason: "a value is missing", position: start)
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    isDigit(byte) || (0x61...0x66).contains(byte | 0x20)
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

  private static func isPartOfLiteral(_ byte: UInt8) -> Bool {
    isDigit(byte) || (0x61...0x7a).contains(byte | 0x20) || "+-.".utf8.contains(byte)
  }

  /// `-0.5e+3`: an optional sign, digits without a leading zero, a fraction, an exponent.
  private static func isNumber(_ text: ArraySlice<UInt8>) -> Bool {
    var rest = text
    func takeDigits() -> Int {
      let digits = rest.prefix(while: isDigit).count
      rest = rest.dropFirst(digits)
      return digits
    }
    if rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
    let leading = rest.first
    let whole = takeDigits()
    guard whole > 0, whole == 1 || leading != UInt8(ascii: "0") else { return false }
    if rest.first == UInt8(ascii: ".") {
      rest = rest.dropFirst()
      guard takeDigits() > 0 else { return false }
    }
    if let mark = rest.first, mark | 0x20 == UInt8(ascii: "e") {
      rest = rest.dropFirst()
      if let sign = rest.first, "+-".utf8.contains(sign) { rest = rest.dropFirst() }
      guard takeDigits() > 0 else { return false }
    }
    return rest.isEmpty
  }

  package static func unescaped(_ text: ArraySlice<UInt8>) -> String {
    guard text.contains(UInt8(ascii: "\\")) else { return String(decoding: text, as: UTF8.self) }
    var units: [UInt16] = []
    var result = ""
    var plain: [UInt8] = []
    // Surrogates come as two escapes: all that is decoded goes through UTF-16, and the rest through UTF-8.
    func flush() {
      result += String(decoding: units, as: UTF16.self) + String(decoding: plain, as: UTF8.self)
      units = []
      plain = []
    }
    var index = text.startIndex
    while index < text.endIndex {
      guard text[index] == UInt8(ascii: "\\") else {
        if !units.isEmpty { flush() }
        plain.append(text[index])
        index += 1
        continue
      }
      if !plain.isEmpty { flush() }
      let kind = text[index + 1]
      if kind == UInt8(ascii: "u") {
        units.append(UInt16(String(decoding: text[(index + 2)..<(index + 6)], as: UTF8.self), radix: 16) ?? 0xfffd)
        index += 6
      } else {
        let pairs: [UInt8: UInt16] = [0x62: 8, 0x66: 12, 0x6e: 10, 0x72: 13, 0x74: 9]
        units.append(pairs[kind] ?? UInt16(kind))
        index += 2
      }
    }
    flush()
    return result
  }
}
