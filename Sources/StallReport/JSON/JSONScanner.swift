import Glibc

/// A reader of JSON (RFC 8259) that goes from token to token over bytes that stay where they are.
///
/// It copies and allocates nothing. The bytes may come from anybody: every load is checked against the end, and nesting is bounded.
/// All readers of JSON in this package are made of it; each of them knows its own keys:
///
///     guard try json.beginObject() else { return }
///     repeat {
///       let key = try json.key()
///       if json.is(key, "pid") { pid = try json.skipValue() } else { try json.skipValue() }
///     } while try json.nextMember()
package struct JSONScanner {
  /// Why bytes are not JSON, and where, counted in bytes from 0.
  package struct Fault: Error {
    package var reason: String
    package var position: Int

    package init(reason: String, position: Int) {
      self.reason = reason
      self.position = position
    }
  }

  /// A string's bytes between its quotes.
  package struct Text {
    package var start: Int
    package var end: Int
    /// Some characters are written as escapes.
    package var hasEscapes: Bool

    @inlinable package var count: Int { end - start }
    @inlinable package var range: Range<Int> { start..<end }

    @inlinable package init(start: Int, end: Int, hasEscapes: Bool) {
      self.start = start
      self.end = end
      self.hasEscapes = hasEscapes
    }
  }

  /// How deep values may be nested in the outermost one.
  package static let depthLimit = 32

  /// The position of the next byte, counted from 0.
  package private(set) var position = 0
  @usableFromInline let base: UnsafePointer<UInt8>
  package let count: Int
  /// How many objects and arrays are open.
  private var depth = 0
  private let requiresUTF8: Bool

  /// A reader of bytes, which must stay where they are while it is used.
  ///
  /// - Parameter requiresUTF8: Whether a string that is not UTF-8 (RFC 3629) is a fault.
  package init(_ bytes: UnsafeBufferPointer<UInt8>, requiresUTF8: Bool = true) {
    base = bytes.baseAddress ?? UnsafePointer(bitPattern: 1)!
    count = bytes.count
    self.requiresUTF8 = requiresUTF8
  }

  /// The byte at the position; 0 at the end.
  @inlinable package var current: UInt8 { position < count ? base[position] : 0 }

  /// A fault at the position.
  package func fault(_ reason: String) -> Fault { Fault(reason: reason, position: position) }

  // MARK: Values

  /// Goes to the next value; returns where it begins.
  package mutating func beginValue() throws(Fault) -> Int {
    guard depth <= Self.depthLimit else { throw fault("nested too deep") }
    skipBlanks()
    return position
  }

  /// Goes past a value of any kind; returns where it is.
  @discardableResult
  package mutating func skipValue() throws(Fault) -> Range<Int> {
    let start = try beginValue()
    switch current {
    case UInt8(ascii: "{"):
      if try beginObject() {
        repeat {
          _ = try key()
          try skipValue()
        } while try nextMember()
      }
    case UInt8(ascii: "["):
      if try beginArray() { repeat { try skipValue() } while try nextElement() }
    default: try skipScalar()
    }
    return start..<position
  }

  /// Goes past a string, a number, `true`, `false` or `null`.
  package mutating func skipScalar() throws(Fault) {
    if current == UInt8(ascii: "\"") { _ = try text() } else { try skipLiteral() }
  }

  /// Checks that nothing but blanks follows.
  package mutating func end() throws(Fault) {
    skipBlanks()
    guard position == count else { throw fault("more than one value") }
  }

  // MARK: Objects and arrays

  /// Enters the object at the position; returns whether it has a member, and has left it otherwise.
  package mutating func beginObject() throws(Fault) -> Bool { begin(UInt8(ascii: "}")) }

  /// Enters the array at the position; returns whether it has an element, and has left it otherwise.
  package mutating func beginArray() throws(Fault) -> Bool { begin(UInt8(ascii: "]")) }

  /// Goes past the next member's key and colon.
  package mutating func key() throws(Fault) -> Text {
    guard current == UInt8(ascii: "\"") else { throw fault("a key is missing") }
    let key = try text()
    skipBlanks()
    guard current == UInt8(ascii: ":") else { throw fault("\":\" is missing") }
    position += 1
    return key
  }

  /// Goes from a member to the next one; returns false if there is none, and has left the object then.
  package mutating func nextMember() throws(Fault) -> Bool {
    if takeComma() { return true }
    guard current == UInt8(ascii: "}") else { throw fault("\"}\" is missing") }
    leave()
    return false
  }

  /// Goes from an element to the next one; returns false if there is none, and has left the array then.
  package mutating func nextElement() throws(Fault) -> Bool {
    if takeComma() { return true }
    guard current == UInt8(ascii: "]") else { throw fault("\"]\" is missing") }
    leave()
    return false
  }

  private mutating func begin(_ end: UInt8) -> Bool {
    position += 1
    skipBlanks()
    guard current != end else {
      position += 1
      return false
    }
    depth += 1
    return true
  }

  @inline(__always)
  private mutating func takeComma() -> Bool {
    skipBlanks()
    guard current == UInt8(ascii: ",") else { return false }
    position += 1
    skipBlanks()
    return true
  }

  private mutating func leave() {
    position += 1
    depth -= 1
  }

  /// Goes past spaces, tabs and line ends.
  @inline(__always)
  package mutating func skipBlanks() {
    while position < count {
      let byte = base[position]
      guard byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d else { return }
      position += 1
    }
  }
}

// MARK: - Strings

extension JSONScanner {
  /// Goes past the string at the position.
  package mutating func text() throws(Fault) -> Text {
    let start = position
    var hasEscapes = false
    position += 1
    while true {
      skipPlainText()
      guard position < count else { throw Fault(reason: "a string without an end", position: start) }
      let byte = base[position]
      if byte == UInt8(ascii: "\"") {
        position += 1
        return Text(start: start + 1, end: position - 1, hasEscapes: hasEscapes)
      }
      if byte == UInt8(ascii: "\\") {
        hasEscapes = true
        try skipEscape()
      } else if byte >= 0x80 {
        if requiresUTF8 { try skipCharacter() } else { position += 1 }
      } else {
        throw fault("a control character in a string")
      }
    }
  }

  /// Goes to the next quote, backslash, control character or byte that is not ASCII, or to the end.
  @inline(__always)
  private mutating func skipPlainText() {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let tops: UInt64 = 0x8080_8080_8080_8080
    while position + 8 <= count {
      let word = UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self)
      let quote = word ^ (ones &* 0x22)
      let backslash = word ^ (ones &* 0x5c)
      // A top bit is set in the first byte that is zero, or below 0x20; those above it do not count.
      let found =
        ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | ((word &- ones &* 0x20) & ~word) | word
      let marks = found & tops
      if marks != 0 {
        position += UInt64(littleEndian: marks).trailingZeroBitCount >> 3
        return
      }
      position += 8
    }
    while position < count {
      let byte = base[position]
      if byte == 0x22 || byte == 0x5c || byte < 0x20 || byte >= 0x80 { return }
      position += 1
    }
  }

  /// Goes past an escape, from its backslash.
  private mutating func skipEscape() throws(Fault) {
    switch position + 1 < count ? base[position + 1] : 0 {
    case UInt8(ascii: "u"):
      guard position + 6 <= count, (2..<6).allSatisfy({ Self.isHexadecimal(base[position + $0]) }) else {
        throw fault("\\u without four digits")
      }
      position += 6
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      position += 2
    default: throw fault("no such escape")
    }
  }

  /// Goes past one character of more than one byte (RFC 3629, section 4).
  private mutating func skipCharacter() throws(Fault) {
    let (length, lowest, highest): (Int, UInt8, UInt8) =
      switch base[position] {
      case 0xc2...0xdf: (2, 0x80, 0xbf)
      case 0xe0: (3, 0xa0, 0xbf)
      case 0xed: (3, 0x80, 0x9f)
      case 0xe1...0xef: (3, 0x80, 0xbf)
      case 0xf0: (4, 0x90, 0xbf)
      case 0xf1...0xf3: (4, 0x80, 0xbf)
      case 0xf4: (4, 0x80, 0x8f)
      default: (0, 0, 0)
      }
    guard length > 0, position + length <= count, (lowest...highest).contains(base[position + 1]),
      (2..<max(2, length)).allSatisfy({ base[position + $0] & 0xc0 == 0x80 })
    else { throw fault("not UTF-8") }
    position += length
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20)
  }

  // MARK: Literals

  /// Goes past a number, `true`, `false` or `null`.
  private mutating func skipLiteral() throws(Fault) {
    for word in ["true", "false", "null"] as [StaticString] where matches(word, at: position) {
      position += word.utf8CodeUnitCount
      return
    }
    if current == UInt8(ascii: "-") { position += 1 }
    let leading = current
    let whole = skipDigits()
    guard whole > 0, whole == 1 || leading != UInt8(ascii: "0") else { throw fault("a value is missing") }
    if current == UInt8(ascii: ".") {
      position += 1
      guard skipDigits() > 0 else { throw fault("digits are missing") }
    }
    if current | 0x20 == UInt8(ascii: "e") {
      position += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { position += 1 }
      guard skipDigits() > 0 else { throw fault("digits are missing") }
    }
  }

  @inline(__always)
  private mutating func skipDigits() -> Int {
    let start = position
    while position < count, base[position] &- 0x30 <= 9 { position += 1 }
    return position - start
  }

  // MARK: Comparing

  /// Whether a string is a word; one with escapes is compared as it is written.
  @inlinable @inline(__always)
  package func `is`(_ text: Text, _ word: StaticString) -> Bool {
    text.count == word.utf8CodeUnitCount && memcmp(base + text.start, word.utf8Start, text.count) == 0
  }

  /// Whether two strings are written alike.
  package func areEqual(_ a: Text, _ b: Text) -> Bool {
    a.count == b.count && memcmp(base + a.start, base + b.start, a.count) == 0
  }

  /// Whether a word stands at a position.
  @inline(__always)
  private func matches(_ word: StaticString, at start: Int) -> Bool {
    let length = word.utf8CodeUnitCount
    return start + length <= count && memcmp(base + start, word.utf8Start, length) == 0
  }
}
