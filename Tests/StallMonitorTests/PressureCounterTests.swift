import StallReport
import Testing

@testable import StallCapture
@testable import StallMonitor

struct PressureCounterTests {
  @Test(arguments: [
    (
      "some avg10=0.00 avg60=0.00 avg300=0.00 total=57605011\nfull avg10=0.00 avg60=0.02 avg300=0.19 total=3\n",
      57_605_011_000
    ),
    ("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", 0), ("some total=7\n", 7000),
    ("some avg10=0.00 total=7", nil), ("full avg10=0.00 total=7\n", nil), ("some avg10=1\n", nil), ("", nil),
    ("some \n", nil),
  ])
  func totalOfTheFirstLine(text: String, expected: UInt64?) {
    var text = text
    text.withUTF8 { #expect(PressureCounter.someTotal(in: UnsafeRawBufferPointer($0)) == expected) }
  }

  @Test func differencesAreOfWhatBothKnow() {
    let before = PressureTotals(processor: 5, storage: nil, memory: 9)
    let after = PressureTotals(processor: 8, storage: 4, memory: 3)
    #expect(after.since(before) == PressureTotals(processor: 3, storage: nil, memory: nil))
  }
}
