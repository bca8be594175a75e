/// Makes times irregular, so that what repeats itself is not always met in the same phase.
struct IrregularTimes: Equatable {
  private var state: UInt64

  init(seed: UInt64 = 1) { state = seed }

  /// A time between `shortest` and `longest`.
  mutating func next(_ shortest: UInt64, _ longest: UInt64) -> UInt64 {
    // A linear congruential generator (Knuth): its high bits suffice, and with one seed the times are the same in each run of a test.
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return shortest + (longest - shortest).multipliedFullWidth(by: state).high
  }
}
