import PlatformLibc

/// Goes past values, for ``JSONScanner``; where one is at fault, the position is at the fault.
struct JSONCursor {
  /// What is wrong.
  enum Failure: UInt8 {
    case none, tooDeep, missingKey, missingColon, missingBrace, missingBracket, missingValue, missingDigits
    case openString, controlCharacter, badEscape, badHexadecimal, badCharacter

    var words: String {
      switch self {
      case .none: ""
      case .tooDeep: "nested too deep"
      case .missingKey: "a key is missing"
      case .missingColon: "\":\" is missing"
      case .missingBrace: "\"}\" is missing"
      case .missingBracket: "\"]\" is missing"
      case .missingValue: "a value is missing"
      case .missingDigits: "digits are missing"
      case .openString: "a string without an end"
      case .controlCharacter: "a control character in a string"
      case .badEscape: "no such escape"
      case .badHexadecimal: "\\u without four digits"
      case .badCharacter: "not UTF-8"
      }
    }
  }

  let base: UnsafePointer<UInt8>
  let count: Int
  var position: Int
  let requiresUTF8: Bool

  @inline(__always)
  private var current: UInt8 { position < count ? base[position] : 0 }

  /// Goes past spaces, tabs and line ends.
  @inline(__always)
  private mutating func skipBlanks() { JSONScanner.skipBlanks(from: &position, in: base, count) }

  // MARK: Values

  /// Goes past a value, in which so many levels of others may be: less than 64.
  mutating func skipValue(levels: Int) -> Failure {
    var open = 0
    // Of each open object a one, and of each array a zero; the innermost is the lowest bit.
    var objects: UInt64 = 0
    while true {
      guard open <= levels else { return .tooDeep }
      skipBlanks()
      switch current {
      case UInt8(ascii: "{"):
        position += 1
        skipBlanks()
        if current != UInt8(ascii: "}") {
          (open, objects) = (open + 1, objects << 1 | 1)
          let failure = skipKey()
          if failure != .none { return failure }
          continue
        }
        position += 1
      case UInt8(ascii: "["):
        position += 1
        skipBlanks()
        if current != UInt8(ascii: "]") {
          (open, objects) = (open + 1, objects << 1)
          continue
        }
        position += 1
      default:
        let failure = skipScalar()
        if failure != .none { return failure }
      }
      // To the next value, or out of what ends here.
      while true {
        if open == 0 { return .none }
        skipBlanks()
        let byte = current
        if byte == UInt8(ascii: ",") {
          position += 1
          guard objects & 1 == 1 else { break }
          skipBlanks()
          let failure = skipKey()
          if failure != .none { return failure }
          break
        }
        if objects & 1 == 1 {
          guard byte == UInt8(ascii: "}") else { return .missingBrace }
        } else {
          guard byte == UInt8(ascii: "]") else { return .missingBracket }
        }
        position += 1
        (open, objects) = (open - 1, objects >> 1)
      }
    }
  }

  @inline(__always)
  private mutating func skipKey() -> Failure {
    guard current == UInt8(ascii: "\"") else { return .missingKey }
    var hasEscapes = false
    let failure = skipText(&hasEscapes)
    if failure != .none { return failure }
    skipBlanks()
    guard current == UInt8(ascii: ":") else { return .missingColon }
    position += 1
    return .none
  }

  @inline(__always)
  mutating func skipScalar() -> Failure {
    guard current == UInt8(ascii: "\"") else { return skipLiteral() }
    var hasEscapes = false
    return skipText(&hasEscapes)
  }

  // MARK: Strings

  /// Goes past the string at the position.
  @inline(__always)
  mutating func skipText(_ hasEscapes: inout Bool) -> Failure {
    let start = position
    position += 1
    while true {
      skipPlainText()
      guard position < count else {
        position = start
        return .openString
      }
      let byte = base[position]
      if byte == UInt8(ascii: "\"") {
        position += 1
        return .none
      }
      let failure: Failure
      if byte == UInt8(ascii: "\\") {
        hasEscapes = true
        failure = skipEscape()
      } else if byte < 0x20 {
        return .controlCharacter
      } else {
        failure = skipCharacter()
      }
      if failure != .none { return failure }
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
  @inline(never)
  private mutating func skipEscape() -> Failure {
    switch position + 1 < count ? base[position + 1] : 0 {
    case UInt8(ascii: "u"):
      guard position + 6 <= count, (2..<6).allSatisfy({ Self.isHexadecimal(base[position + $0]) }) else {
        return .badHexadecimal
      }
      position += 6
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
      UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
      position += 2
    default: return .badEscape
    }
    return .none
  }

  /// Goes past one character of more than one byte (RFC 3629, section 4).
  @inline(never)
  private mutating func skipCharacter() -> Failure {
    guard requiresUTF8 else {
      position += 1
      return .none
    }
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
    else { return .badCharacter }
    position += length
    return .none
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20)
  }

  // MARK: Literals

  /// Goes past a number, `true`, `false` or `null`.
  private mutating func skipLiteral() -> Failure {
    if current >= UInt8(ascii: "f") {
      for word in ["true", "false", "null"] as [StaticString] where matches(word) {
        position += word.utf8CodeUnitCount
        return .none
      }
    }
    if current == UInt8(ascii: "-") { position += 1 }
    let leading = current
    let whole = skipDigits()
    guard whole > 0, whole == 1 || leading != UInt8(ascii: "0") else { return .missingValue }
    if current == UInt8(ascii: ".") {
      position += 1
      guard skipDigits() > 0 else { return .missingDigits }
    }
    if current | 0x20 == UInt8(ascii: "e") {
      position += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { position += 1 }
      guard skipDigits() > 0 else { return .missingDigits }
    }
    return .none
  }

  @inline(__always)
  private mutating func skipDigits() -> Int {
    let start = position
    while position < count, base[position] &- 0x30 <= 9 { position += 1 }
    return position - start
  }

  /// Whether a word is at the position.
  @inline(__always)
  private func matches(_ word: StaticString) -> Bool {
    let length = word.utf8CodeUnitCount
    return position + length <= count && memcmp(base + position, word.utf8Start, length) == 0
  }
}
