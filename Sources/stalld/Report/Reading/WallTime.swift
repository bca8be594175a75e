/// Moments of the wall clock as seconds since 1970, from and to RFC 3339.
///
/// Not by the C library, which takes its time-zone lock for each. Days from and to a civil date after Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms".
enum WallTime {
  /// Reads `2026-11-21T04:35:35.123456789Z`; an offset such as `+01:00` may stand for `Z`.
  ///
  /// Nil if it is not that.
  static func seconds(_ text: UnsafeBufferPointer<UInt8>) -> Double? {
    var position = 0
    func digits(_ count: Int, upTo limit: Int) -> Int? {
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
    func take(_ marks: StaticString) -> Bool {
      guard position < text.count else { return false }
      for index in 0..<marks.utf8CodeUnitCount where marks.utf8Start[index] == text[position] {
        position += 1
        return true
      }
      return false
    }
    guard let year = digits(4, upTo: 9999), take("-"), let month = digits(2, upTo: 12), month > 0, take("-"),
      let day = digits(2, upTo: 31), day > 0, take("Tt "), let hour = digits(2, upTo: 23), take(":"),
      let minute = digits(2, upTo: 59), take(":"), let second = digits(2, upTo: 60)
    else { return nil }
    var fraction = 0.0
    if take(".") {
      var scale = 1.0
      let start = position
      while position < text.count, text[position] &- 0x30 <= 9 {
        scale /= 10
        fraction += Double(text[position] &- 0x30) * scale
        position += 1
      }
      guard position > start else { return nil }
    }
    var offset = 0
    if !take("Zz") {
      guard position < text.count else { return nil }
      let isWest = text[position] == UInt8(ascii: "-")
      guard take("+-"), let hours = digits(2, upTo: 23), take(":"), let minutes = digits(2, upTo: 59) else {
        return nil
      }
      offset = (hours * 60 + minutes) * (isWest ? -60 : 60)
    }
    guard position == text.count else { return nil }
    let shifted = month > 2 ? year : year - 1
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    return Double(days * 86_400 + hour * 3600 + minute * 60 + second - offset) + fraction
  }

  /// Reads a moment as ``seconds(_:)`` does.
  static func seconds(_ text: String) -> Double? {
    var text = text
    return text.withUTF8 { seconds($0) }
  }

  /// `2026-11-21T04:35:35Z`, or with milliseconds.
  static func text(_ seconds: Double, withMilliseconds: Bool = false) -> String {
    guard seconds.isFinite, abs(seconds) < 250_000_000_000 else { return "" }
    let thousandths = Int((seconds * 1000).rounded(withMilliseconds ? .toNearestOrEven : .down))
    let whole = Int((Double(thousandths) / 1000).rounded(.down))
    let days = Int((Double(whole) / 86_400).rounded(.down))
    let second = whole - days * 86_400
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthIndex = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * monthIndex + 2) / 5 + 1
    let month = monthIndex < 10 ? monthIndex + 3 : monthIndex - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    func padded(_ number: Int, _ width: Int = 2) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
    let fraction = withMilliseconds ? "." + padded(thousandths - whole * 1000, 3) : ""
    return "\(padded(year, 4))-\(padded(month))-\(padded(day))T\(padded(second / 3600)):\(padded(second / 60 % 60)):"
      + "\(padded(second % 60))\(fraction)Z"
  }
}
