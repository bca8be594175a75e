import StallReport

extension WatchedLoop {
  /// A loop, as the code that registers it describes it.
  ///
  /// The closures are called on the watchdog, while the loop's thread may be blocked anywhere: they must take no lock.
  struct Subject: Sendable {
    var label: Label
    /// The thread that serves it, unless the heartbeat knows another.
    var thread: Thread
    var limits: Limits
    var publication: LoopPublication
    /// The source of heartbeats for a loop without observers.
    var heartbeat: (any HeartbeatSource)?
    var inspection = Inspection()
    /// What runs in its turns; nil for a loop that runs what it finds.
    var work: (any TurnWork)?

    /// How reports name a loop.
    struct Label: Sendable {
      var name: String
      /// Which run loop it is.
      var kind: @Sendable () -> LoopKind
      /// Whether its kind is known only when it has turned.
      var findsKind = false
    }

    /// A thread that serves a loop.
    struct Thread: Sendable {
      /// The kernel's id of it.
      var id: Int32
      /// Where its stack ends, or 0 if that is not known.
      var stackEnd: UInt64 = 0
      /// Whether it is one of libdispatch's workers, which block signals.
      var isWorker = false
    }

    /// What decides when a turn is late.
    struct Limits: Sendable {
      /// How long a turn may take at first, in nanoseconds.
      var threshold: UInt64
      /// The threshold is the loop's own, and not the one that holds for all.
      var hasOwnThreshold = false
      /// When turns are not watched.
      var suspension: Suspension
    }

    /// What the watchdog can ask about a loop, beside its pulse.
    struct Inspection: Sendable {
      /// The mode that the loop runs in and the kind of callout that it makes, each nil if not known.
      var state: @Sendable () -> (mode: String?, callout: String?) = { (nil, nil) }
      /// How many runs of Foundation's loop its observers see; nil if that is no concern.
      ///
      /// With more on the stack, the loop may well turn.
      var knownRuns: @Sendable () -> Int? = { nil }
      /// What is logged once of such a run, after the loop's name; nil for nothing.
      var noteOnUnseenRun: String? =
        "runs in a private mode, which is not watched; add the mode with CFRunLoopAddCommonMode"
      /// What reads its count of turns; nil if it has none, or is not made yet.
      var meter: @Sendable () -> TurnMeter? = { nil }
    }

    /// Whether a turn that lasts may keep the service from working; a task that takes long need not.
    var isVital: Bool { work == nil }

    /// Whether objects of the service may end with it, which must not happen on the watchdog's thread.
    var mayHoldServiceObjects: Bool { work == nil }

    var pulse: Pulse { publication.pulse }
    var records: LoopRecords { publication.records }

    /// Which run loop it is, as far as that is known yet.
    var knownKind: LoopKind? {
      !label.findsKind || pulse.word.raw != 0 || heartbeat?.isBeating == true ? label.kind() : nil
    }
  }
}
