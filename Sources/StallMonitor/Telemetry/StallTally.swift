import StallCapture
import StallReport

/// What has been counted of stalls and not been handed over yet.
struct StallTally: Sendable {
  /// The dimensions of what is counted.
  struct Key: Hashable, Sendable {
    var loop: String
    var cause: Cause
  }

  struct Count: Sendable, Equatable {
    /// Stalls that have ended.
    var ended = 0
    /// How long they took, in nanoseconds.
    var nanoseconds: UInt64 = 0
    /// Those of them that were reported in summaries only.
    var suppressed = 0
  }

  var counts: [Key: Count] = [:]
  /// The watched loops, each with whether it is blocked.
  var loops: [String: Bool] = [:]

  mutating func add(_ report: Report, isReported: Bool) {
    var count = counts[Key(loop: report.loop.name, cause: report.verdict.cause)] ?? Count()
    count.ended += 1
    count.nanoseconds += report.durationNanoseconds
    if !isReported { count.suppressed += 1 }
    counts[Key(loop: report.loop.name, cause: report.verdict.cause)] = count
  }
}
