/// What a JSON value's bytes mean, for values that ``JSONScanner`` has gone past.
package enum JSONValues {
  /// The characters of a string, from the bytes between its quotes.
  ///
  /// Bytes that are not UTF-8, and a surrogate without the other one, become U+FFFD.
  package static func string(_ text: UnsafeBufferPointer<UInt8>) -> String {
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
    var index = 0
    while index < text.count {
      guard text[index] == UInt8(ascii: "\\") else {
        if !units.isEmpty { flush() }
        plain.append(text[index])
        index += 1
        continue
      }
      if !plain.isEmpty { flush() }
      let kind = text[index + 1]
      if kind == UInt8(ascii: "u") {
        let digits = UnsafeBufferPointer(rebasing: text[(index + 2)..<(index + 6)])
        units.append(UInt16(String(decoding: digits, as: UTF8.self), radix: 16) ?? 0xfffd)
        index += 6
      } else {
        units.append(character(ofEscape: kind))
        index += 2
      }
    }
    flush()
    return result
  }

  private static func character(ofEscape kind: UInt8) -> UInt16 {
    switch kind {
    case UInt8(ascii: "b"): 8
    case UInt8(ascii: "t"): 9
    case UInt8(ascii: "n"): 10
    case UInt8(ascii: "f"): 12
    case UInt8(ascii: "r"): 13
    default: UInt16(kind)
    }
  }

  /// A number; nil for anything else, and for one that a `Double` does not hold.
  package static func number(_ bytes: UnsafeBufferPointer<UInt8>) -> Double? {
    guard !bytes.isEmpty else { return nil }
    var whole: UInt64 = 0
    var scale = 1.0
    var isFraction = false
    for (index, byte) in bytes.enumerated() {
      switch byte {
      case 0x30...0x39 where index < 16:
        whole = whole * 10 + UInt64(byte - 0x30)
        if isFraction { scale *= 10 }
      case UInt8(ascii: ".") where index > 0: isFraction = true
      default:
        let value = Double(String(decoding: bytes, as: UTF8.self))
        return value?.isFinite == true ? value : nil
      }
    }
    return Double(whole) / scale
  }
}
