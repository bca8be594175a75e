import Foundation
import Testing

@testable import StallReport

struct TimestampTests {
  @Test(arguments: [
    ("1970-01-01T00:00:00Z", 0, 0), ("2000-02-29T12:30:45.5Z", 951_827_445, 500_000_000),
    ("2026-11-21T06:04:01.913864703Z", 1_795_241_041, 913_864_703), ("2024-12-31T23:59:60Z", 1_735_689_600, 0),
    ("2026-03-01T00:00:00.1234567899Z", 1_772_323_200, 123_456_789), ("1969-12-31T23:59:59Z", -1, 0),
    ("0000-03-01T00:00:00Z", -62_162_035_200, 0),
  ])
  func reads(text: String, seconds: Int, nanoseconds: Int) {
    for form in [Timestamp.Form.report, .any] {
      #expect(Timestamp(rfc3339: text, form: form) == Timestamp(seconds: seconds, nanoseconds: nanoseconds))
    }
  }

  @Test(arguments: [
    ("2026-11-21T05:35:35+01:00", 1_795_235_735), ("2026-11-20 22:35:35-06:00", 1_795_235_735),
    ("2026-11-21t04:35:35z", 1_795_235_735),
  ])
  func readsOtherFormsWhereTheyAreWanted(text: String, seconds: Int) {
    #expect(Timestamp(rfc3339: text, form: .any) == Timestamp(seconds: seconds, nanoseconds: 0))
    #expect(Timestamp(rfc3339: text, form: .report) == nil)
  }

  @Test(arguments: [
    "", "2026-11-21", "2026-11-21T04:35:35", "2026-11-21T04:35:35.Z", "2026-13-21T04:35:35Z", "2026-11-32T04:35:35Z",
    "2026-11-21T24:35:35Z", "2026-11-21T04:60:35Z", "2026-11-21T04:35:61Z", "2026-11-21T04:35:35Z ",
    "26-11-21T04:35:35Z", "2026-02-29T04:35:35Z", "2026-04-31T04:35:35Z", "2100-02-29T04:35:35Z",
    "2026-11-21T04:35:35+0100", "2026-11-21T04:35:35é", "2026-00-21T04:35:35Z",
  ])
  func refuses(text: String) {
    #expect(Timestamp(rfc3339: text, form: .any) == nil)
    #expect(Timestamp(rfc3339: text, form: .report) == nil)
  }

  @Test("written timestamps are read back unchanged, on every day of four centuries")
  func writtenIsRead() {
    for day in stride(from: -50_000, through: 150_000, by: 1) {
      let time = Timestamp(seconds: day * 86_400 + abs(day % 86_400), nanoseconds: 1_000_000 * abs(day % 1000))
      #expect(Timestamp(rfc3339: time.text, form: .report) == time)
      #expect(Timestamp(rfc3339: time.text(fractionDigits: 3), form: .any) == time)
    }
  }

  @Test func digits() {
    let time = Timestamp(seconds: 1_795_235_735, nanoseconds: 999_999_999)
    #expect(time.text(fractionDigits: 0) == "2026-11-21T04:35:35Z")
    #expect(time.text(fractionDigits: 3) == "2026-11-21T04:35:35.999Z")
    #expect(time.text == "2026-11-21T04:35:35.999999999Z")
  }

  @Test func seconds() {
    #expect(Timestamp(secondsSince1970: 1.0015, rounded: .down) == Timestamp(seconds: 1, nanoseconds: 1_000_000))
    #expect(Timestamp(secondsSince1970: -0.25, rounded: .down) == Timestamp(seconds: -1, nanoseconds: 750_000_000))
    #expect(Timestamp(secondsSince1970: .infinity, rounded: .down) == nil)
    #expect(Timestamp(seconds: -1, nanoseconds: 0).nanosecondsSince1970 == nil)
    #expect(Timestamp(seconds: .max, nanoseconds: 0).nanosecondsSince1970 == nil)
    #expect(Timestamp(seconds: 1, nanoseconds: 2).nanosecondsSince1970 == 1_000_000_002)
  }
}
