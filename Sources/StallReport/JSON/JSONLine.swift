/// Builds one JSON object as bytes, in the order in which members are added (RFC 8259).
///
/// A writer of its own because the watchdog links no Foundation, and because a line that is too long is made shorter by
/// whole members.
package struct JSONLine {
  package private(set) var bytes: [UInt8] = []
  private var needsComma = false

  package init() {}

  /// Adds an array of durations in milliseconds with three decimals.
  package mutating func array(_ key: StaticString, milliseconds nanoseconds: [UInt64]) {
    name(key)
    bytes.append(contentsOf: "[\(nanoseconds.map(Self.milliseconds).joined(separator: ","))]".utf8)
  }

  /// Adds `"key":value`.
  ///
  /// A nil value is left out.
  package mutating func member(_ key: StaticString, _ value: String?) {
    guard let value else { return }
    name(key)
    string(value)
  }

  package mutating func member(_ key: StaticString, _ value: (some BinaryInteger)?) {
    guard let value else { return }
    name(key)
    bytes.append(contentsOf: String(value).utf8)
  }

  /// Adds `"key":true` or `"key":false`.
  ///
  /// A nil value is left out.
  package mutating func member(_ key: StaticString, bool value: Bool?) {
    guard let value else { return }
    name(key)
    bytes.append(contentsOf: (value ? "true" : "false").utf8)
  }

  /// Adds a duration in milliseconds with three decimals.
  package mutating func member(_ key: StaticString, milliseconds nanoseconds: UInt64?) {
    guard let nanoseconds else { return }
    name(key)
    bytes.append(contentsOf: Self.milliseconds(nanoseconds).utf8)
  }

  private static func milliseconds(_ nanoseconds: UInt64) -> String {
    let microseconds = (nanoseconds &+ 500) / 1000
    let fraction = String(microseconds % 1000)
    let zeros = String(repeating: "0", count: 3 - fraction.utf8.count)
    return "\(microseconds / 1000).\(zeros)\(fraction)"
  }

  /// Adds `"key":true`, and nothing if the value is false.
  package mutating func member(_ key: StaticString, ifTrue value: Bool) {
    guard value else { return }
    name(key)
    bytes.append(contentsOf: "true".utf8)
  }

  /// Adds a nested object; nothing at all if `body` adds no member, unless it is `required`.
  package mutating func object(_ key: StaticString, required: Bool = false, _ body: (inout JSONLine) -> Void) {
    var inner = JSONLine()
    body(&inner)
    guard required || !inner.bytes.isEmpty else { return }
    name(key)
    append(object: inner)
  }

  /// Adds an array of objects that were built before.
  package mutating func array(_ key: StaticString, _ objects: [JSONLine]) {
    name(key)
    bytes.append(UInt8(ascii: "["))
    for (index, object) in objects.enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      append(object: object)
    }
    bytes.append(UInt8(ascii: "]"))
  }

  /// Adds an array of strings.
  package mutating func array(_ key: StaticString, _ strings: [String]) {
    name(key)
    bytes.append(UInt8(ascii: "["))
    for (index, text) in strings.enumerated() {
      if index > 0 { bytes.append(UInt8(ascii: ",")) }
      string(text)
    }
    bytes.append(UInt8(ascii: "]"))
  }

  /// Adds `"key":0.93`: a number from 0 to 1 with two decimals.
  package mutating func member(_ key: StaticString, share: Double) {
    name(key)
    let hundredths = Int((share * 100).rounded())
    bytes.append(contentsOf: "\(hundredths / 100).\(hundredths / 10 % 10)\(hundredths % 10)".utf8)
  }

  /// Adds all members of another object.
  package mutating func append(members other: JSONLine) {
    guard !other.bytes.isEmpty else { return }
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
    bytes.append(contentsOf: other.bytes)
  }

  /// Adds an array of numbers.
  package mutating func array(_ key: StaticString, _ numbers: [some BinaryInteger]) {
    name(key)
    bytes.append(contentsOf: "[\(numbers.map { String($0) }.joined(separator: ","))]".utf8)
  }

  /// The object with its braces and a newline.
  package func terminated() -> [UInt8] {
    [UInt8(ascii: "{")] + bytes + [UInt8(ascii: "}"), UInt8(ascii: "\n")]
  }

  private mutating func append(object: JSONLine) {
    bytes.append(UInt8(ascii: "{"))
    bytes.append(contentsOf: object.bytes)
    bytes.append(UInt8(ascii: "}"))
  }

  private mutating func name(_ key: StaticString) {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
    bytes.append(UInt8(ascii: "\""))
    key.withUTF8Buffer { bytes.append(contentsOf: $0) }
    bytes.append(UInt8(ascii: "\""))
    bytes.append(UInt8(ascii: ":"))
  }

  /// How many bytes one becomes in a JSON text.
  package static func escapedLength(_ byte: UInt8) -> Int {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"): 2
    case 0..<0x20, 0x7f: 6
    default: 1
    }
  }

  private mutating func string(_ value: String) {
    bytes.append(UInt8(ascii: "\""))
    for byte in value.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(byte)
      case 0..<0x20, 0x7f:
        bytes.append(contentsOf: "\\u00".utf8)
        bytes.append(contentsOf: hexadecimal(CollectionOfOne(byte)).utf8)
      default: bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }
}

extension String {
  /// At most `limit` bytes as JSON text, cut at a character and marked with an ellipsis.
  ///
  /// Escaped bytes count as what they become: no text of a host's makes a line longer than it may be.
  package func limited(to limit: Int) -> String {
    guard utf8.count > limit || utf8.reduce(0, { $0 + JSONLine.escapedLength($1) }) > limit else { return self }
    var length = 3
    var end = utf8.startIndex
    while end < utf8.endIndex, length + JSONLine.escapedLength(utf8[end]) <= limit {
      length += JSONLine.escapedLength(utf8[end])
      end = utf8.index(after: end)
    }
    while end > startIndex, String.Index(end, within: self) == nil { end = utf8.index(before: end) }
    return String(self[..<end]) + "…"
  }
}
