/// Stalls that have the key in common, and what they amount to.
struct StallGroup {
  /// The shared value of the group's key, such as function, fingerprint or cause; empty if it is not known.
  var key: String
  /// The responsible function and the cause that together have the most time; empty if it is not known.
  var culprit: String
  var cause: String
  /// The number of stalls, including those of summaries.
  var count = 0
  /// How many of them were only counted: their single durations are not known.
  var suppressed = 0
  /// Stalls in which the process ended.
  var fatal = 0
  /// Distinct hosts; at least 1.
  var hosts = 1
  var milliseconds = 0.0
  /// Of the stalls that were reported one by one; nil without any.
  var percentiles: Percentiles?
  var longest = 0.0
  /// Seconds since 1970: when the first began, and the last ended.
  var first = Double.infinity
  var last = -Double.infinity
  /// The stack with the most time that stalls of this function and cause had, a number of ``ReportSummary/stacks``.
  var stack: Int?

  /// What groups are ranked by: what many hosts suffer from comes before what one does.
  var rank: Double { milliseconds * Double(hosts) }

  /// Durations in milliseconds, by the nearest rank.
  struct Percentiles {
    var p50: Double
    var p95: Double
    var p99: Double

    /// Nil if there is no duration.
    init?(ofSorted durations: some RandomAccessCollection<Double>) {
      guard !durations.isEmpty else { return nil }
      func rank(_ share: Double) -> Double {
        let rank = max(1, Int((share * Double(durations.count)).rounded(.up)))
        return durations[durations.index(durations.startIndex, offsetBy: rank - 1)]
      }
      (p50, p95, p99) = (rank(0.5), rank(0.95), rank(0.99))
    }
  }
}
