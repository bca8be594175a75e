import TurnSource

/// A histogram of turn lengths with fixed bounds: of all turns, or of those between two readings.
package struct TurnHistogram: Sendable, Equatable {
  /// The longest turn that each bucket counts, in seconds; a last one counts all.
  ///
  /// Fewer than those of the agent's own metrics: each is a series for every watched loop.
  static let bounds = [0.000_1, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

  /// Turns up to each bound, and then all: each counts those before it, too.
  var buckets = [Int](repeating: 0, count: bounds.count + 1)
  /// The time that the turns took.
  var seconds = 0.0

  init() {}

  /// What a loop has counted; a turn's length is known to within 12.5 %.
  init(of loop: any TurnSource) {
    let totals = loop.turnTotals
    buckets = Self.cumulative(totals.histogram, bounds: Self.bounds).map { Int(clamping: $0) }
    seconds = totals.workTime / .seconds(1)
  }

  /// Counts the turns up to each bound, in seconds, and then all: each number includes those before
  /// it.
  package static func cumulative(_ lengths: [(upTo: Duration, turns: UInt)], bounds: [Double]) -> [UInt] {
    var counts = [UInt](repeating: 0, count: bounds.count + 1)
    for (length, turns) in lengths {
      let seconds = length / .seconds(1)
      for (index, bound) in bounds.enumerated() where seconds <= bound { counts[index] += turns }
      counts[bounds.count] += turns
    }
    return counts
  }

  /// What has come since `last`, which becomes this; nil if no turn has.
  ///
  /// A counter never goes back, though the lengths are measured by a clock whose rate is known ever better.
  func change(since last: inout TurnHistogram) -> TurnHistogram? {
    guard buckets != last.buckets else { return nil }
    var change = TurnHistogram()
    for index in buckets.indices {
      change.buckets[index] = max(0, buckets[index] - last.buckets[index])
      last.buckets[index] += change.buckets[index]
    }
    change.seconds = max(0, seconds - last.seconds)
    last.seconds += change.seconds
    return change
  }
}
