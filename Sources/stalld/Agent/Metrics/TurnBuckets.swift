import LoopEngine
import StallMonitor

/// A loop's turns as a Prometheus histogram, whose numbers never fall.
///
/// The loop counts in ticks, whose length in seconds is measured at each reading: a turn near a bound may change its bucket from one
/// reading to the next.
struct TurnBuckets {
  /// Upper bounds in seconds.
  ///
  /// Finer than those that the library exports for loops of services: most turns of the agent take microseconds, and its series are few.
  /// Each bound of the library is a series for every loop. Both lists are public: a changed bound breaks queries.
  static let bounds = [0.00001, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

  /// Cumulative, by bound.
  private(set) var counts = [UInt](repeating: 0, count: bounds.count)
  private(set) var total: UInt = 0
  private(set) var seconds = 0.0

  mutating func take(_ statistics: Loop.Statistics) {
    let fresh = TurnHistogram.cumulative(statistics.histogram, bounds: Self.bounds)
    for index in counts.indices { counts[index] = max(counts[index], fresh[index]) }
    total = max(total, fresh[counts.count], counts.last ?? 0)
    seconds = max(seconds, statistics.workTime / .seconds(1))
  }
}
