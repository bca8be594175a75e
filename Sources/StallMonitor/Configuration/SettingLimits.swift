extension StallMonitorConfiguration {
  // The agent's settings of services have the same limits.
  /// The thresholds that are accepted.
  package static let allowedThreshold: ClosedRange<Duration> = .milliseconds(1) ... .seconds(3600)
  package static let allowedRepeatWindow: ClosedRange<Duration> = .zero ... .seconds(3600)
  package static let allowedBudget = 0...10000
  package static let allowedSampling: ClosedRange<Duration> = .milliseconds(10) ... .seconds(60)
  static let allowedActionTime: ClosedRange<Duration> = .zero ... .seconds(3600)
  /// The lengths of a loop's name that are accepted, in bytes of UTF-8.
  package static let allowedLoopName = 1...64
  /// `sun_path` (unix(7)) with its zero byte has 108.
  static let longestSocketPath = 107
}

// MARK: - Words

extension ClosedRange {
  /// The limits in words: `0 to 10000`.
  fileprivate func words(_ text: (Bound) -> String) -> String { "\(text(lowerBound)) to \(text(upperBound))" }
}

extension ClosedRange<Int> {
  /// The limits in words: `0 to 10000`.
  package var words: String { words { "\($0)" } }
}

extension ClosedRange<Duration> {
  /// The limits in prose: `1 ms to 1 h`.
  var words: String { words(Self.describe) }

  /// The upper limit in prose: `1 h`.
  var wordsOfUpperBound: String { Self.describe(upperBound) }

  /// The limits as a variable spells durations: `1ms to 1h`.
  var spelled: String { words(Self.spell) }

  /// The limits as the agent's JSON spells durations: `"1ms" to "1h"`.
  var quoted: String { words { "\"\(Self.spell($0))\"" } }

  /// The upper limit as a variable spells it: `1h`.
  var spelledUpperBound: String { Self.spell(upperBound) }

  /// The limits in whole milliseconds.
  package var milliseconds: ClosedRange<Int> { Int(lowerBound / .milliseconds(1))...Int(upperBound / .milliseconds(1)) }

  private static func describe(_ duration: Duration) -> String { duration.text(separator: " ") }

  private static func spell(_ duration: Duration) -> String { duration.text(separator: "") }
}

extension Duration {
  private static let units: [(name: String, length: Duration)] = [
    ("h", .seconds(3600)), ("min", .seconds(60)), ("s", .seconds(1)), ("ms", .milliseconds(1)),
    ("us", .microseconds(1)),
  ]

  /// A whole number of the longest unit that fits, for limits: these are round.
  fileprivate func text(separator: String) -> String {
    let nanoseconds = Int64(self / .nanoseconds(1))
    let unit = Self.units.first { nanoseconds > 0 && nanoseconds % Int64($0.length / .nanoseconds(1)) == 0 }
    return "\(nanoseconds / Int64((unit?.length ?? .seconds(1)) / .nanoseconds(1)))\(separator)\(unit?.name ?? "s")"
  }
}
