import StallReport

extension WatchedLoop {
  /// A loop, as whoever watches it describes it.
  ///
  /// The closures are called on the watchdog, while the loop's thread may be blocked anywhere: they must take no lock.
  struct Subject: Sendable {
    var name: String
    /// Which run loop it is.
    var kind: @Sendable () -> String
    /// The thread that serves it, unless the heartbeat knows another.
    var threadID: Int32
    /// Where that thread's stack ends, or 0.
    var stackEnd: UInt64
    /// How long a turn may take at first, in nanoseconds.
    var threshold: UInt64
    /// The threshold is the loop's own, and not the one that holds for all.
    var hasOwnThreshold = false
    var pulse: Pulse
    /// What outlives the process of its stalls; its pulse stores into it.
    var records = LoopRecords()
    var suspension: Suspension
    var state: @Sendable () -> (mode: String?, callout: String?)
    /// Whether a stack shows a run that the loop's observers do not see: then the loop may well turn.
    var isInUnseenRun: @Sendable ([StackFrame]) -> Bool = { _ in false }
    /// What takes the place of observers where there are none.
    var heartbeat: (any Heartbeat)?
    /// Whether its kind is known only when it has turned.
    var findsKind = false
    /// What reads its count of turns; nil if it has none, or is not made yet.
    var meter: @Sendable () -> TurnMeter? = { nil }

    /// Which run loop it is, as far as that is known yet.
    var knownKind: String? { !findsKind || pulse.word.raw != 0 || heartbeat?.isBeating == true ? kind() : nil }
  }
}
