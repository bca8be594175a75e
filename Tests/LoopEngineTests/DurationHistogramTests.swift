import Testing

@testable import LoopEngine

@Suite struct DurationHistogramTests {
  @Test(arguments: [0, 1, 7, 8, 15, 16, 31, 1000, 12_345_678, 1 << 40] as [UInt64])
  func aLengthIsExactToAnEighth(_ length: UInt64) {
    let top = DurationHistogram.upperBound(of: DurationHistogram.bucket(of: length))
    #expect(top >= length)
    #expect(top - length <= length / 8)
  }
}
