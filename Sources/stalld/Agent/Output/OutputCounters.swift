/// What the outputs have done since they were opened.
struct OutputCounters: Sendable, Equatable {
  struct Output: Sendable, Equatable {
    /// `file PATH`, `stdout`, `syslog ADDRESS`.
    var name: String
    /// Whether lines are done with only once this output has them.
    var isRequired: Bool
    /// Taken in whole.
    var lines: UInt64 = 0
    var bytes: UInt64 = 0
    /// Attempts that failed.
    var errors: UInt64 = 0
    /// Lines given up, for the queue was full or the output refused them.
    var dropped: UInt64 = 0
    var rotations: UInt64 = 0
    /// What waits now.
    var queuedLines = 0
    var queuedBytes = 0
    /// The last attempt failed.
    var isFailing = false
  }

  var outputs: [Output] = []
}
