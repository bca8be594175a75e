/// Decides about one loop: whether its turn is late, when to check again, and what is due in a stall.
///
/// A value without effects: the caller passes in what it has read (``Reading``) and carries out what comes out (``Outcome``).
package struct TurnMonitor {
  /// What was read of a loop at one moment.
  package struct Reading {
    package var now: Instant
    package var word: TurnWord
    /// When the turn in the word began.
    package var turnBegan: Instant
    /// Whether turns are ignored now.
    package var isSuspended = false
    /// For how long turns have been ignored so far, in nanoseconds: the time of a pause is no turn's.
    package var paused: UInt64 = 0
    /// What runs in the turn.
    package var part = TurnPart.whole
    /// Whether the loop's turns may consist of pieces.
    package var hasPieces = false
    /// How long this turn may take, if that is longer than the threshold.
    package var leastThreshold: UInt64 = 0
    /// Whether the turn's end is when it came, and not when it was noticed.
    package var hasExactEnd = true
    package var heartbeat = HeartbeatState.none
    /// When the followed turn ended; nil while it lasts, or if none is followed.
    package var turnEnd: Instant?

    package init(
      now: Instant, word: TurnWord, turnBegan: Instant, isSuspended: Bool = false, paused: UInt64 = 0,
      heartbeat: HeartbeatState = .none, turnEnd: Instant? = nil
    ) {
      (self.now, self.word, self.turnBegan) = (now, word, turnBegan)
      (self.isSuspended, self.paused) = (isSuspended, paused)
      (self.heartbeat, self.turnEnd) = (heartbeat, turnEnd)
    }
  }

  /// Whether heartbeats watch the loop.
  package enum HeartbeatState: Sendable {
    /// Observers alone watch it, or no heartbeat is due.
    case none
    /// By observers, until another thread comes to serve it.
    case searching
    case beating
    /// The loop never answers again.
    case over

    /// Whether observers show the loop's turns, and no heartbeat is due.
    package var followsTurns: Bool { self == .none || self == .searching }
  }

  /// What to do about the loop.
  package enum Decision: Equatable, Sendable {
    /// The loop has not moved since the last check, and is in no turn: nothing to watch.
    case quiet
    /// Check again at this time.
    case checkAgain(at: Instant)
    /// Send a heartbeat, read the word again, and call ``TurnMonitor/didBeat(_:frozen:)``.
    case beat
    /// The turn is late: begin an episode.
    case late(TurnWord)
    /// A sample of the stall is due, or a `stall.ongoing` report, or both.
    case due(sample: Bool, ongoing: Bool)
    /// The late turn has ended.
    case ended(at: Instant)
    /// A late turn was found while there was no memory for a report.
    case deferred
  }

  /// A decision, with what else the check has shown.
  package struct Outcome: Equatable {
    package var decision: Decision
    /// The current turn was not seen before: what its thread uses counts from now on.
    package var isNewTurn = false
    /// The loop turns by itself: nobody need look for another thread that serves it.
    package var endsSearch = false
  }

  /// A turn that is late.
  package struct LateTurn: Equatable, Sendable {
    package var word: TurnWord
    /// When it began, or the loop was resumed in it.
    package var start: Instant
    /// For how long of it the process was frozen, and when the last of that was noticed.
    package var frozen: UInt64 = 0
    package var frozenUntil = Instant.zero

    package init(word: TurnWord, start: Instant, frozen: UInt64 = 0, frozenUntil: Instant = .zero) {
      (self.word, self.start, self.frozen, self.frozenUntil) = (word, start, frozen, frozenUntil)
    }
  }

  private enum State {
    case watching
    /// A late turn waits for memory.
    case deferred
    case following(SampleSchedule)
  }

  /// After how many thresholds of turns of its own no other thread is expected to serve a loop.
  private static let thresholdsOfSearch: UInt64 = 4
  /// The times between two searches for what serves a loop that never turns.
  private static let searchIntervals: ClosedRange<UInt64> = 10_000_000...60_000_000_000

  /// How long a turn may take.
  package var threshold: UInt64
  /// How long the turn may take that was seen last.
  package var turnThreshold: UInt64 { max(threshold, leastThreshold) }
  private var state = State.watching
  // The word at the last check, and when its turn began. At first that of a loop that never turned.
  private var seen = TurnWord(raw: 0)
  private var seenSince = Instant.zero
  // What ran in it then, and when that was.
  private var seenPart = TurnPart.whole
  private var seenAt = Instant.zero
  private var pieceChecks = PieceChecks()
  private var leastThreshold: UInt64 = 0
  // A late turn in which the loop turns in a run that is not observed.
  private var ignored: TurnWord?
  // For how long the whole process was frozen in the current turn.
  private var frozenInTurn: UInt64 = 0
  private var frozenUntil = Instant.zero
  // What `Reading.paused` was at the last check that met no pause, and for how long there were pauses in the current turn.
  private var pausedBefore: UInt64 = 0
  package private(set) var pausedInTurn: UInt64 = 0
  // When the search for what serves a loop that has not turned yet began, and when to search again.
  private var searchStart: Instant?
  private var searchTime = Instant.zero
  // When it was first seen to turn by itself.
  private var turningSince: Instant?
  // No heartbeat is sent before this time.
  private var nextBeat = Instant.zero

  package init(threshold: UInt64) { self.threshold = threshold }

  /// Whether a stall is being followed.
  package var isFollowing: Bool { if case .following = state { true } else { false } }

  /// Whether a piece of a turn is followed.
  package var followsPiece: Bool { isFollowing && seenPart.isPiece }

  /// Whether it is not known which of several pieces of a turn is followed.
  package var followsSeveralPieces: Bool { isFollowing && seenPart.isSeveral }

  /// Whether a late turn waits for memory.
  package var isDeferred: Bool { if case .deferred = state { true } else { false } }

  // MARK: Checks

  /// Checks the loop.
  ///
  /// - Parameters:
  ///   - reading: The loop at this moment.
  ///   - frozen: For how long the whole process was frozen since the last check: no loop is late by that time.
  /// - Returns: What to do now.
  package mutating func check(_ reading: Reading, frozen: UInt64) -> Outcome {
    switch state {
    case .deferred: return Outcome(decision: .deferred)
    case .following(let schedule): return Outcome(decision: follow(schedule, reading))
    case .watching: break
    }
    if reading.heartbeat == .over { return Outcome(decision: .quiet) }
    if reading.isSuspended {
      // Nothing to check, and nothing to be woken for, until it ends.
      if !isSeen(reading) { beginTurn(reading) }
      return Outcome(decision: .quiet)
    }
    defer { pausedBefore = reading.paused }
    if reading.word.phase == .idle {
      if reading.heartbeat == .beating {
        seen = reading.word
        guard reading.now >= nextBeat else { return Outcome(decision: .checkAgain(at: nextBeat)) }
        // On a grid: one wake-up serves all loops.
        nextBeat = reading.now.next(onGridOf: threshold)
        return Outcome(decision: .beat)
      }
      // No run loop has turned yet: it may be that none ever will.
      if reading.heartbeat == .searching, reading.word.raw == 0 {
        return Outcome(decision: .checkAgain(at: nextSearch(at: reading.now)))
      }
    }
    return checkTurn(reading, frozen: frozen)
  }

  /// Continues after a heartbeat was sent; `reading` has the word as it is then.
  package mutating func didBeat(_ reading: Reading, frozen: UInt64) -> Outcome {
    // The loop rests, and got none.
    if reading.word.phase == .idle { return Outcome(decision: .checkAgain(at: nextBeat)) }
    return checkTurn(reading, frozen: frozen)
  }

  private mutating func checkTurn(_ reading: Reading, frozen: UInt64) -> Outcome {
    let (now, word) = (reading.now, reading.word)
    var outcome = Outcome(decision: .quiet)
    outcome.endsSearch = endsSearch(reading)
    if word.phase == .idle {
      guard word != seen else { return outcome }
      seen = word
      // A turn that begins after this moment cannot be late before then.
      outcome.decision = .checkAgain(at: reading.hasPieces ? nextMeeting(after: now) : now + threshold)
      return outcome
    }
    if word == ignored {
      seen = word
      return outcome
    }
    // What was counted in a pause is of no stall, unless it is so short that the counters are still those of the turn.
    outcome.isNewTurn = !isSeen(reading) || reading.paused > pausedBefore + threshold / 10
    if !isSeen(reading) { beginTurn(reading) }
    seenAt = now
    pausedInTurn = pauses(in: reading)
    let start = seenSince + pausedInTurn
    if frozen > 0 { frozenUntil = now }
    frozenInTurn += min(frozen, now.since(start + frozenInTurn))
    let deadline = start + frozenInTurn + turnThreshold
    // A piece that is known has checks of its own.
    let isToBeMet = reading.hasPieces && !seenPart.isPiece
    let next = isToBeMet ? nextMeeting(after: now) : nextCheckOfPiece(at: now, since: start + frozenInTurn)
    if now < deadline {
      outcome.decision = .checkAgain(at: min(deadline, next))
    } else {
      outcome.decision = seenPart.needsConfirmation && !pieceChecks.isConfirmed ? .checkAgain(at: next) : .late(word)
    }
    return outcome
  }

  private mutating func beginTurn(_ reading: Reading) {
    // A piece may have begun at any time since the turn did: it counts from now.
    seenSince = reading.part.isPiece ? reading.now : reading.turnBegan
    (seen, seenPart) = (reading.word, reading.part)
    leastThreshold = reading.leastThreshold
    (frozenInTurn, pausedInTurn) = (0, 0)
    pieceChecks.beginPiece()
  }

  /// When to check again what a loop runs whose turns may have pieces: a piece counts from the check that first meets it.
  ///
  /// On a grid: one wake-up serves all threads of a pool.
  private func nextMeeting(after now: Instant) -> Instant {
    now.next(onGridOf: PieceChecks.interval(threshold))
  }

  /// When to check what runs in the turn; never, if it is one piece.
  private mutating func nextCheckOfPiece(at now: Instant, since start: Instant) -> Instant {
    guard seenPart.isPiece else { return .never }
    let age = seenPart.needsConfirmation ? now.since(start) : 0
    return now + pieceChecks.interval(at: now, age: age, threshold: turnThreshold)
  }

  private mutating func follow(_ schedule: SampleSchedule, _ reading: Reading) -> Decision {
    if let end = reading.turnEnd, !seenPart.isPiece { return .ended(at: reading.hasExactEnd ? end : seenAt) }
    // A piece has ended between this check and the last one.
    if reading.turnEnd != nil || reading.part != seenPart {
      // What comes next counts from when it is met, also if it looks the same.
      seen = TurnWord(raw: 0)
      if reading.part.isPiece { seenPart = reading.part }
      return .ended(at: seenAt)
    }
    if reading.heartbeat == .over { return .ended(at: reading.now) }
    seenAt = reading.now
    let sample = reading.now >= schedule.nextSample
    let ongoing = reading.now >= schedule.nextOngoing
    if sample || ongoing { return .due(sample: sample, ongoing: ongoing) }
    let next =
      reading.hasExactEnd && (seenPart.isPiece || !reading.hasPieces)
      ? nextCheckOfPiece(at: reading.now, since: reading.now) : reading.now + PieceChecks.interval(turnThreshold)
    return .checkAgain(at: min(schedule.nextSample, schedule.nextOngoing, next))
  }

  /// When to search again for what serves the loop.
  ///
  /// The interval is an eighth of the time since the first search, within limits.
  private mutating func nextSearch(at now: Instant) -> Instant {
    let start = searchStart ?? now
    searchStart = start
    if now >= searchTime {
      searchTime =
        now + min(max(now.since(start) / 8, Self.searchIntervals.lowerBound), Self.searchIntervals.upperBound)
    }
    return searchTime
  }

  /// Whether the loop turns by itself for so long that no other thread is expected to serve it.
  private mutating func endsSearch(_ reading: Reading) -> Bool {
    guard reading.word != seen, reading.heartbeat == .searching else { return false }
    let since = turningSince ?? reading.now
    turningSince = since
    return reading.now.since(since) >= Self.thresholdsOfSearch * threshold
  }

  // MARK: Questions that change nothing

  /// Whether the loop has made a transition since the last check.
  package func hasMoved(_ word: TurnWord) -> Bool { word != seen }

  /// Whether this turn was seen by a check.
  package func hasSeen(_ word: TurnWord) -> Bool { word == seen }

  /// Whether this part of the turn is the one that was seen by the last check.
  package func isSeen(_ part: TurnPart) -> Bool { part == seenPart }

  /// Whether the last check has met the same turn, and the same part of it.
  private func isSeen(_ reading: Reading) -> Bool { reading.word == seen && reading.part == seenPart }

  /// For how long there were pauses in the current turn; rather too long, if it is not known when in the time since the last check that was.
  private func pauses(in reading: Reading) -> UInt64 {
    let since = isSeen(reading) ? seenSince : reading.turnBegan
    return min(
      pauses(in: reading.word, until: reading.paused), reading.now.since(since))
  }

  /// The same of a turn that is over, with what `Reading.paused` is now.
  package func pauses(in turn: TurnWord, until paused: UInt64) -> UInt64 {
    (seen.stamp == turn.stamp ? pausedInTurn : 0) + (paused > pausedBefore ? paused - pausedBefore : 0)
  }

  /// For how long the process was frozen in a turn, as far as checks have met it.
  package func frozen(in turn: TurnWord) -> UInt64 { seen.stamp == turn.stamp ? frozenInTurn : 0 }

  /// How long the current turn has lasted, without pauses; 0 if the loop is in no turn.
  package func age(_ reading: Reading) -> UInt64 {
    // An ignored turn says nothing of when the watchdog was to be awake.
    guard reading.word.phase != .idle, reading.word != ignored else { return 0 }
    return reading.now.since(reading.turnBegan + pauses(in: reading))
  }

  /// The current turn; nil unless it is late.
  package func lateTurn(_ reading: Reading) -> LateTurn? {
    guard reading.word.phase != .idle, reading.word != ignored, !reading.isSuspended else { return nil }
    let isSeen = isSeen(reading)
    // Nobody has seen how long the piece has been running.
    if reading.part.isPiece, !isSeen { return nil }
    let start = (isSeen ? seenSince : reading.turnBegan) + pauses(in: reading)
    let frozen = isSeen ? frozenInTurn : 0
    guard reading.now >= start + frozen + max(threshold, reading.leastThreshold) else { return nil }
    return LateTurn(word: reading.word, start: start, frozen: frozen, frozenUntil: frozenUntil)
  }

  /// Whether no turn has lasted for the threshold, as far as turns are watched.
  ///
  /// A loop that waits, never turned, is paused or turns in a run that is not observed is healthy: nothing speaks against it.
  package func isHealthy(_ reading: Reading) -> Bool {
    if isFollowing { return reading.turnEnd != nil }
    return lateTurn(reading) == nil
  }

  // MARK: What the caller has done

  /// The turn of the last check, as late as it was found; it counts as if it had begun later by its pauses.
  package var checkedTurn: LateTurn {
    LateTurn(word: seen, start: seenSince + pausedInTurn, frozen: frozenInTurn, frozenUntil: frozenUntil)
  }

  /// Follows a late turn from now on.
  package mutating func follow(_ turn: LateTurn, foundAt now: Instant, sampling: UInt64) {
    state = .following(SampleSchedule(start: turn.start + turn.frozen, now: now, sampling: sampling))
  }

  /// Waits for memory, with a late turn that was found.
  package mutating func postpone() { state = .deferred }

  /// Notes that a sample was taken.
  package mutating func didSample(at time: Instant) { updateSchedule { $0.didSample(at: time) } }

  /// Notes that `stall.ongoing` was reported.
  package mutating func didReportOngoing(at time: Instant) { updateSchedule { $0.didReportOngoing(at: time) } }

  /// Ignores this turn from now on: the loop turns in a run that is not observed, and nobody can say how well.
  package mutating func ignore(_ turn: TurnWord) { ignored = turn }

  /// Stops following the stall.
  package mutating func stopFollowing() { state = .watching }

  private mutating func updateSchedule(_ update: (inout SampleSchedule) -> Void) {
    guard case .following(var schedule) = state else { return }
    update(&schedule)
    state = .following(schedule)
  }
}
