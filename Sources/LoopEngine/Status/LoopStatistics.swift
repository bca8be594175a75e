extension Loop {
  /// What a loop has done since it was made.
  ///
  /// A turn is what happens between two waits, or between two checks that found events at once. A run with duration
  /// zero is not a turn, and neither is what a run does before its first wait. Consecutive passes that only poll,
  /// because blocks have posted blocks, are one turn.
  public struct Statistics: Sendable {
    /// How many turns ended.
    public let turns: UInt
    /// The time spent in turns.
    public let workTime: Duration
    /// The time spent waiting.
    public let waitTime: Duration
    /// The longest turn.
    public let longestTurn: Duration
    /// The most blocks that were ever waiting to run at once.
    public let deepestQueue: Int
    fileprivate let counts: [UInt]
    fileprivate let nanosecondsPerTick: Double

    /// The length that a share of all turns did not exceed, to within 12.5 %; nil if there were none.
    ///
    /// - Parameter share: Between 0 and 1: 0.5 for the median, 0.99 for the 99th percentile.
    /// - Returns: The length, nil when no turn has ended yet.
    public func turnLength(atPercentile share: Double) -> Duration? {
      let total = counts.reduce(0, +)
      guard total > 0 else { return nil }
      let wanted = UInt((Double(total) * min(max(share, 0), 1)).rounded(.up))
      var seen: UInt = 0
      for (bucket, count) in counts.enumerated() where count > 0 {
        seen += count
        if seen >= wanted {
          return min(upperBound(of: bucket), longestTurn)
        }
      }
      return longestTurn
    }

    /// The histogram: for each length that occurred, the longest that counts as the same, and how many turns there
    /// were.
    public var histogram: [(upTo: Duration, turns: UInt)] {
      counts.enumerated().filter { $0.element > 0 }.map { bucket, count in
        (upTo: upperBound(of: bucket), turns: count)
      }
    }

    private func upperBound(of bucket: Int) -> Duration {
      Loop.Statistics.duration(Double(DurationHistogram.upperBound(of: bucket)) * nanosecondsPerTick)
    }

    fileprivate static func duration(_ nanoseconds: Double) -> Duration {
      .nanoseconds(Int64(min(nanoseconds, 9e18)))
    }
  }

  /// What the loop has done so far.
  ///
  /// Lock-free, on any thread; allocates about 4 KB.
  public var statistics: Statistics {
    let unit = counters.nanosecondsPerTick
    func duration(_ ticks: Int64) -> Duration { Statistics.duration(Double(ticks) * unit) }
    return Statistics(
      turns: counters.turns.load(ordering: .relaxed),
      workTime: duration(counters.workTime.load(ordering: .relaxed)),
      waitTime: duration(counters.waitTime.load(ordering: .relaxed)),
      longestTurn: duration(counters.longestTurn.load(ordering: .relaxed)),
      deepestQueue: counters.deepestQueue.load(ordering: .relaxed), counts: counters.histogram.counts,
      nanosecondsPerTick: unit)
  }
}
