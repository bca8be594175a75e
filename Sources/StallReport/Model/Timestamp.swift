/// A time of the wall clock, in UTC; its text is that of RFC 3339.
///
/// Not by the C library, which takes its time-zone lock for each. Days from and to a civil date after Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms".
package struct Timestamp: Equatable, Sendable {
  /// Since 1970; the nanoseconds of the second come on top.
  package var seconds: Int
  package var nanoseconds: Int

  package init(seconds: Int, nanoseconds: Int) {
    self.seconds = seconds
    self.nanoseconds = nanoseconds
  }

  package init(nanosecondsSince1970 time: UInt64) {
    self.init(seconds: Int(time / 1_000_000_000), nanoseconds: Int(time % 1_000_000_000))
  }

  /// A time in whole milliseconds; nil if it is not finite, or thousands of years away.
  package init?(secondsSince1970 time: Double, rounded rule: FloatingPointRoundingRule) {
    guard time.isFinite, abs(time) < 250_000_000_000 else { return nil }
    let milliseconds = Int((time * 1000).rounded(rule))
    let seconds = Int((Double(milliseconds) / 1000).rounded(.down))
    self.init(seconds: seconds, nanoseconds: (milliseconds - seconds * 1000) * 1_000_000)
  }

  /// Nil before 1970 and after 2554.
  package var nanosecondsSince1970: UInt64? {
    guard let seconds = UInt64(exactly: seconds) else { return nil }
    let (product, overflows) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return overflows || product > .max - 1_000_000_000 ? nil : product + UInt64(nanoseconds)
  }

  /// To about a quarter of a microsecond.
  package var secondsSince1970: Double { Double(seconds) + Double(nanoseconds) / 1e9 }
}

// MARK: - Text

extension Timestamp {
  /// `2026-11-21T04:35:35.123456789Z`.
  package var text: String { text(fractionDigits: 9) }

  /// `2026-11-21T04:35:35Z`, or with a fraction of so many digits, which is cut and not rounded.
  package func text(fractionDigits: Int) -> String {
    let days = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
    let second = seconds - days * 86_400
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    let fraction = fractionDigits > 0 ? "." + Self.padded(nanoseconds, 9).prefix(fractionDigits) : ""
    return "\(Self.padded(year, 4))-\(Self.padded(month, 2))-\(Self.padded(day, 2))T\(Self.padded(second / 3600, 2)):"
      + "\(Self.padded(second / 60 % 60, 2)):\(Self.padded(second % 60, 2))\(fraction)Z"
  }

  private static func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }

  /// Which texts ``init(rfc3339:form:)`` takes.
  package enum Form {
    /// As reports have it: `2026-11-21T04:35:35Z`, with or without a fraction.
    case report
    /// Any that RFC 3339 allows: an offset such as `+01:00` may represent `Z`, and a space for `T`.
    case any
  }

  /// Reads a time; nil if it is invalid.
  ///
  /// Digits of a fraction beyond nanoseconds are left out.
  package init?(rfc3339 text: UnsafeBufferPointer<UInt8>, form: Form) {
    var reader = TimestampReader(text: text)
    guard let time = reader.time(form) else { return nil }
    self = time
  }

  /// Reads a time; nil if it is invalid.
  package init?(rfc3339 text: String, form: Form) {
    var text = text
    guard let time = text.withUTF8({ Timestamp(rfc3339: $0, form: form) }) else { return nil }
    self = time
  }
}

/// Reads the parts of a time one after the other.
private struct TimestampReader {
  let text: UnsafeBufferPointer<UInt8>
  private var position = 0

  init(text: UnsafeBufferPointer<UInt8>) { self.text = text }

  mutating func time(_ form: Timestamp.Form) -> Timestamp? {
    guard let year = digits(4, upTo: 9999), take("-"), let month = digits(2, upTo: 12), month > 0, take("-"),
      let day = digits(2, upTo: 31), day > 0, take(form == .any ? "Tt " : "T"), let hour = digits(2, upTo: 23),
      take(":"), let minute = digits(2, upTo: 59), take(":"), let second = digits(2, upTo: 60),
      let nanoseconds = fraction(), let offset = offset(form), position == text.count,
      day <= Self.daysOfMonth(year, month)
    else { return nil }
    let seconds = Self.days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    return Timestamp(seconds: seconds, nanoseconds: nanoseconds)
  }

  private static func daysOfMonth(_ year: Int, _ month: Int) -> Int {
    days(month == 12 ? year + 1 : year, month % 12 + 1, 1) - days(year, month, 1)
  }

  /// The days from 1970-01-01.
  private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
    let shifted = month > 2 ? year : year - 1
    let era = (shifted >= 0 ? shifted : shifted - 399) / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }

  /// 0 without one.
  private mutating func fraction() -> Int? {
    guard take(".") else { return 0 }
    let start = position
    var value = 0
    while position < text.count, text[position] &- 0x30 <= 9 {
      if position - start < 9 { value = value * 10 + Int(text[position] &- 0x30) }
      position += 1
    }
    guard position > start else { return nil }
    for _ in min(position - start, 9)..<9 { value *= 10 }
    return value
  }

  /// In seconds.
  private mutating func offset(_ form: Timestamp.Form) -> Int? {
    if take(form == .any ? "Zz" : "Z") { return 0 }
    guard form == .any, position < text.count else { return nil }
    let isWest = text[position] == UInt8(ascii: "-")
    guard take("+-"), let hours = digits(2, upTo: 23), take(":"), let minutes = digits(2, upTo: 59) else { return nil }
    return (hours * 60 + minutes) * (isWest ? -60 : 60)
  }

  private mutating func digits(_ count: Int, upTo limit: Int) -> Int? {
    guard position + count <= text.count else { return nil }
    var value = 0
    for _ in 0..<count {
      let digit = text[position] &- 0x30
      guard digit <= 9 else { return nil }
      value = value * 10 + Int(digit)
      position += 1
    }
    return value <= limit ? value : nil
  }

  private mutating func take(_ marks: StaticString) -> Bool {
    guard position < text.count else { return false }
    for index in 0..<marks.utf8CodeUnitCount where marks.utf8Start[index] == text[position] {
      position += 1
      return true
    }
    return false
  }
}
