/// What the outputs have done since they were opened.
struct OutputCounters: Sendable, Equatable {
  struct Output: Sendable, Equatable {
    /// `file PATH`, `stdout`, `syslog ADDRESS`.
    var name: String
    /// Whether lines are done with only once this output has them.
    var isRequired = true
    /// Taken in whole.
    var lines: UInt64 = 0
    var bytes: UInt64 = 0
    /// Attempts that failed.
    var errors: UInt64 = 0
    /// Lines dropped because the queue was full or the output refused them.
    var dropped: UInt64 = 0
    var rotations: UInt64 = 0
    /// What waits now.
    var queuedLines = 0
    var queuedBytes = 0
    /// Why the last attempt failed; nil if it did not.
    var failure: String?
    /// What was written did not reach the disk when it should have (`fsync: interval`).
    var isUnsynchronised = false
    /// For how long lines have waited and none was taken, or fdatasync(2) has not returned; zero if neither is so.
    var waiting = Duration.zero

    /// Beyond this an output that lines wait for is stuck.
    static let patience = Duration.seconds(10)

    var isFailing: Bool { failure != nil }
    var isStuck: Bool { waiting >= Self.patience }

    /// Whether its numbers stay as they are until a line comes.
    var isSettled: Bool { queuedLines == 0 && waiting == .zero && !isFailing && !isUnsynchronised }
  }

  var outputs: [Output] = []
}

extension OutputCounters.Output {
  /// `ok`, or what is wrong.
  var state: String {
    if isFailing { return "not accepting writes" }
    if isUnsynchronised { return "cannot synchronise" }
    return isStuck ? "stuck: nothing written for \(waiting.components.seconds) s" : "ok"
  }

  /// The output, and what is wrong with it.
  var problem: String { "\(name) \(state)\(failure.map { ": \($0)" } ?? "")" }
}
