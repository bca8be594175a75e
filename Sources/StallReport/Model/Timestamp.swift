/// A moment of the wall clock, as RFC 3339 in UTC with nanoseconds.
package struct Timestamp: Equatable {
  package var seconds: Int
  package var nanoseconds: Int

  package init(seconds: Int, nanoseconds: Int) {
    self.seconds = seconds
    self.nanoseconds = nanoseconds
  }

  package init(nanosecondsSince1970 time: UInt64) {
    self.init(seconds: Int(time / 1_000_000_000), nanoseconds: Int(time % 1_000_000_000))
  }

  /// `2026-11-21T04:35:35.123456789Z`.
  ///
  /// Not by gmtime_r, which takes the C library's time-zone lock. Days to civil date after Howard Hinnant,
  /// "chrono-Compatible Low-Level Date Algorithms".
  package var text: String {
    let days = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
    let second = seconds - days * 86_400
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let month = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * month + 2) / 5 + 1
    let calendarMonth = month < 10 ? month + 3 : month - 9
    let year = yearOfEra + era * 400 + (calendarMonth <= 2 ? 1 : 0)
    func padded(_ number: Int, _ width: Int) -> String {
      let digits = String(number)
      return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }
    return "\(padded(year, 4))-\(padded(calendarMonth, 2))-\(padded(day, 2))T\(padded(second / 3600, 2)):"
      + "\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2)).\(padded(nanoseconds, 9))Z"
  }
}
