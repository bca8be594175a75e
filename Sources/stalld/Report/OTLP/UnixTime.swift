/// Times of reports as nanoseconds since 1970.
enum UnixTime {
  /// Reads an RFC 3339 time in UTC, of 1970 or later, with or without a fraction; nil if it is none.
  static func nanoseconds(rfc3339 text: String) -> UInt64? {
    let bytes = Array(text.utf8)
    // 2026-01-31T12:00:00Z
    guard bytes.count >= 20, bytes.last == UInt8(ascii: "Z"), bytes[4] == UInt8(ascii: "-"), bytes[7] == bytes[4],
      bytes[10] == UInt8(ascii: "T"), bytes[13] == UInt8(ascii: ":"), bytes[16] == bytes[13],
      let year = number(bytes[0..<4]), let month = number(bytes[5..<7]), let day = number(bytes[8..<10]),
      let hour = number(bytes[11..<13]), let minute = number(bytes[14..<16]), let second = number(bytes[17..<19]),
      year >= 1970, (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60
    else { return nil }
    var fraction = 0
    if bytes.count > 20 {
      let digits = bytes[20..<(bytes.count - 1)]
      guard bytes[19] == UInt8(ascii: "."), !digits.isEmpty, let value = number(digits.prefix(9)),
        digits.allSatisfy({ (0x30...0x39).contains($0) })
      else { return nil }
      fraction = (min(digits.count, 9)..<9).reduce(value) { sum, _ in sum * 10 }
    }
    let seconds = days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
    let (product, overflows) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    return overflows || product > .max - 1_000_000_000 ? nil : product + UInt64(fraction)
  }

  /// Days from 1970-01-01; a year begins in March here, so that a leap day is its last.
  private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
    let shifted = month > 2 ? year : year - 1
    let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
    return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719468
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
    digits.reduce(Optional(0)) { sum, byte in
      guard let sum, (0x30...0x39).contains(byte) else { return nil }
      return sum * 10 + Int(byte - 0x30)
    }
  }
}
