import Glibc

/// The parts of JSON (RFC 8259) that have no parts themselves, for scanners that do not copy: each goes past one, or says why it is none.
///
/// Every load is checked against the end. Where one is at fault, the position is at the fault.
enum JSONTokens {
  typealias Bytes = UnsafeBufferPointer<UInt8>

  /// Goes past what is ASCII and neither a quote, a backslash nor a control character, as far as whole words of memory go.
  ///
  /// What it stops at may still be such a character.
  @inline(__always)
  static func skipPlain(_ bytes: Bytes, _ position: inout Int) {
    guard let base = UnsafeRawPointer(bytes.baseAddress) else { return }
    let (ones, tops): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
    while position + 8 <= bytes.count {
      let word = UInt64(littleEndian: (base + position).loadUnaligned(as: UInt64.self))
      let (quotes, backslashes) = (word ^ ones &* 0x22, word ^ ones &* 0x5c)
      // The lowest byte that is marked is one of them; those above it may not be.
      let marks =
        ((quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes | (word &- ones &* 0x20) & ~word | word) & tops
      guard marks == 0 else {
        position += marks.trailingZeroBitCount / 8
        return
      }
      position += 8
    }
  }

  /// An escape in a string, from its backslash.
  static func escape(_ bytes: Bytes, _ position: inout Int) -> StaticString? {
    switch position + 1 < bytes.count ? bytes[position + 1] : 0 {
    case UInt8(ascii: "u"):
      guard position + 6 <= bytes.count, bytes[(position + 2)..<(position + 6)].allSatisfy(isHexadecimal) else {
        return "\\u without four digits"
      }
      position += 6
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      position += 2
    default: return "no such escape"
    }
    return nil
  }

  /// Whether there is one character of more than one byte (RFC 3629, section 4).
  static func character(_ bytes: Bytes, _ position: inout Int) -> Bool {
    let (count, lowest, highest): (Int, UInt8, UInt8) =
      switch bytes[position] {
      case 0xc2...0xdf: (2, 0x80, 0xbf)
      case 0xe0: (3, 0xa0, 0xbf)
      case 0xed: (3, 0x80, 0x9f)
      case 0xe1...0xef: (3, 0x80, 0xbf)
      case 0xf0: (4, 0x90, 0xbf)
      case 0xf1...0xf3: (4, 0x80, 0xbf)
      case 0xf4: (4, 0x80, 0x8f)
      default: (0, 0, 0)
      }
    guard count > 0, position + count <= bytes.count, (lowest...highest).contains(bytes[position + 1]),
      bytes[(position + 2)..<(position + count)].allSatisfy({ $0 & 0xc0 == 0x80 })
    else { return false }
    position += count
    return true
  }

  /// A number, `true`, `false` or `null`.
  static func literal(_ bytes: Bytes, _ position: inout Int) -> StaticString? {
    for word in ["true", "false", "null"] as [StaticString] where matches(word, bytes, at: position) {
      position += word.utf8CodeUnitCount
      return nil
    }
    if byte(bytes, position) == UInt8(ascii: "-") { position += 1 }
    let leading = byte(bytes, position)
    let whole = digits(bytes, &position)
    guard whole > 0, whole == 1 || leading != UInt8(ascii: "0") else { return "a value is missing" }
    if byte(bytes, position) == UInt8(ascii: ".") {
      position += 1
      guard digits(bytes, &position) > 0 else { return "digits are missing" }
    }
    if byte(bytes, position) | 0x20 == UInt8(ascii: "e") {
      position += 1
      let sign = byte(bytes, position)
      if sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") { position += 1 }
      guard digits(bytes, &position) > 0 else { return "digits are missing" }
    }
    return nil
  }

  /// Whether the text is there.
  @inline(__always)
  static func matches(_ word: StaticString, _ bytes: Bytes, at start: Int) -> Bool {
    let count = word.utf8CodeUnitCount
    guard start + count <= bytes.count, let base = bytes.baseAddress else { return false }
    return memcmp(base + start, word.utf8Start, count) == 0
  }

  /// Whether two parts are the same.
  @inline(__always)
  static func equal(_ bytes: Bytes, _ a: Range<Int>, _ b: Range<Int>) -> Bool {
    guard a.count == b.count, let base = bytes.baseAddress else { return false }
    return memcmp(base + a.lowerBound, base + b.lowerBound, a.count) == 0
  }

  @inline(__always)
  private static func byte(_ bytes: Bytes, _ position: Int) -> UInt8 { position < bytes.count ? bytes[position] : 0 }

  private static func digits(_ bytes: Bytes, _ position: inout Int) -> Int {
    let start = position
    while position < bytes.count, bytes[position] &- 0x30 <= 9 { position += 1 }
    return position - start
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20)
  }
}
