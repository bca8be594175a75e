/// Numbers and bytes as lower-case hexadecimal digits.
package enum Hexadecimal {
  /// Returns a word as 16 digits.
  package static func text(_ word: UInt64) -> String {
    let digits = String(word, radix: 16)
    return String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }

  /// Returns the two words of 32 digits, such as a stall's id; nil for any other text.
  // Inlined into callers that know the text's type: without that, this is a tenth of what the agent computes for a line.
  @inlinable @inline(__always)
  package static func words(of text: some Collection<UInt8>) -> (high: UInt64, low: UInt64)? {
    var words: (high: UInt64, low: UInt64) = (0, 0)
    var count = 0
    for byte in text {
      let digit: UInt8
      switch byte {
      case 0x30...0x39: digit = byte - 0x30
      case 0x61...0x66: digit = byte - 0x61 + 10
      default: return nil
      }
      guard count < 32 else { return nil }
      if count < 16 { words.high = words.high << 4 | UInt64(digit) } else { words.low = words.low << 4 | UInt64(digit) }
      count += 1
    }
    return count == 32 ? words : nil
  }

  /// Returns the number in `0x1f`; nil for any other text.
  @inlinable
  package static func number(_ text: some StringProtocol) -> UInt64? {
    text.hasPrefix("0x") ? UInt64(text.dropFirst(2), radix: 16) : nil
  }
}

/// The bytes in lower-case hexadecimal.
package func hexadecimal(_ bytes: some Collection<UInt8>) -> String {
  let digits = Array("0123456789abcdef".utf8)
  var text: [UInt8] = []
  text.reserveCapacity(2 * bytes.count)
  for byte in bytes {
    text.append(digits[Int(byte >> 4)])
    text.append(digits[Int(byte & 15)])
  }
  return String(decoding: text, as: UTF8.self)
}
