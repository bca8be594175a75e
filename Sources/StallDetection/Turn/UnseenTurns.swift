import StallReport

/// What has been read of a loop's own notes of late turns, and which of them are stalls that no check has met.
package struct UnseenTurns {
  /// A turn that its own thread has noted at its end.
  package struct Note {
    package var turn: TurnWord
    package var start: Instant
    package var end: Instant
    /// What the loop called in it, if it reports that.
    package var callouts: CalloutTimes?

    package init(turn: TurnWord, start: Instant, end: Instant, callouts: CalloutTimes? = nil) {
      (self.turn, self.start, self.end, self.callouts) = (turn, start, end, callouts)
    }
  }

  /// The notes since the last check.
  package struct News {
    /// The numbers of those that may still be there.
    package var numbers: Range<UInt64>
    /// How many there are in all, and how long these turns lasted together, in the unit of stamps.
    package var count: UInt64
    package var total: UInt64
  }

  /// From what length on the loop notes turns, in the unit of stamps; nil before the first check.
  package var limit: UInt64?
  /// The turn that was followed last, which needs no note.
  package var followed: TurnWord?
  private var count: UInt64 = 0
  private var total: UInt64 = 0

  package init() {}

  /// Takes the notes since the last call; nil if there are none.
  ///
  /// - Parameters:
  ///   - late: How many turns the loop has noted, and how long these lasted.
  ///   - capacity: How many notes it keeps.
  /// - Returns: What is new.
  package mutating func takeNews(of late: (count: UInt64, total: UInt64), capacity: UInt64) -> News? {
    guard late.count != count else { return nil }
    defer { (count, total) = late }
    return News(
      numbers: max(count, late.count - min(late.count, capacity))..<late.count, count: late.count - count,
      total: late.total &- total)
  }

  /// The stall that a note shows; nil if the turn was followed, or was not late.
  ///
  /// - Parameters:
  ///   - note: The turn.
  ///   - id: Makes the stall's id.
  ///   - monitor: What checks have seen of the loop.
  ///   - paused: For how long turns have been ignored so far, in nanoseconds.
  ///   - now: The time.
  ///   - frozen: For how long the whole process was frozen since the last check.
  /// - Returns: The stall, with its exact duration and without a stack.
  package func stall(
    by note: Note, id: () -> String, monitor: TurnMonitor, paused: UInt64, at now: Instant, frozen: UInt64
  ) -> Episode? {
    guard note.turn.stamp != followed?.stamp else { return nil }
    let (start, end) = (note.start + monitor.pauses(in: note.turn, until: paused), note.end)
    guard end > start else { return nil }
    // When in its time the last freeze began is not known.
    let frozen = monitor.frozen(in: note.turn) + end.since(max(start, now - frozen))
    guard end.since(start) >= monitor.threshold + frozen else { return nil }
    var stall = Episode(
      id: id(), turn: note.turn, start: start, frozen: frozen, frozenUntil: now, threshold: monitor.threshold)
    stall.add(Episode.Sample(activity: .unknown, stack: [], failure: .turnEnded), at: end, callouts: note.callouts)
    return stall
  }
}
