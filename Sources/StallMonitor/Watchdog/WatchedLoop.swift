import CLinux
import StallCapture
import StallDetection
import StallReport

/// The watchdog's view of one loop: it reads what ``TurnMonitor`` decides by, and carries out what concerns the pulse and the episode.
///
/// Belongs to the watchdog's thread; the pulse and the description are what the loop's side shares with it.
final class WatchedLoop {
  /// What of the watch's settings concerns a loop's stalls.
  struct Settings {
    /// Which other threads are captured in a stall.
    var otherThreads = StallMonitorConfiguration.ThreadSelection.lockHolder
    /// How long after the first sample the second one comes, in nanoseconds.
    var sampling: UInt64 = 100_000_000
    /// Whether frames get names in this process.
    var namesFrames = true
    /// The plan that applies after the current stall.
    fileprivate var next: WatchPlan?
  }

  /// The current stall, if there is one.
  struct Stall {
    /// Nil while none is followed.
    fileprivate(set) var episode: Episode?
    /// How many of the actions have been handed over.
    var actionsDone = 0
    /// The module that has Foundation's run loops; nil without one.
    var runLoopModule: String?
    // What had been stolen from the machine's processors when the episode began.
    fileprivate var stolenBefore: UInt64?
    /// A late turn that waits for memory.
    fileprivate(set) var deferred: DeferredTurn?
  }

  /// What has been logged about the loop, each once.
  struct Logged {
    var kinds: Set<LoopKind> = []
    fileprivate var unseenRun = false
  }

  let subject: Subject
  let thread: ServingThread
  let unseenRun = UnseenRun()
  private(set) var settings = Settings()
  var stall = Stall()
  private var monitor: TurnMonitor
  private let pulseClock: PulseClock
  let clock: any WatchdogClock
  private var unseenTurns = UnseenTurns()
  var logged = Logged()

  /// A loop whose stamps `pulseClock` reads.
  init(_ subject: Subject, pulseClock: PulseClock, clock: any WatchdogClock, counters: any UsageCounter) {
    self.subject = subject
    self.pulseClock = pulseClock
    self.clock = clock
    monitor = TurnMonitor(threshold: subject.limits.threshold)
    thread = ServingThread(subject.thread, heartbeat: subject.heartbeat, counters: counters, clock: clock)
  }

  /// The stall that is followed; nil if none is.
  var episode: Episode? { stall.episode }

  /// Whether the stall's end is noted as it comes, and not only by the next check: not that of a piece of a turn, for example.
  var hasExactEnd: Bool { subject.work?.hasExactEnd != false && !monitor.followsPiece }

  /// Whether it is not known which of several pieces of a turn is followed.
  var followsSeveralPieces: Bool { monitor.followsSeveralPieces }

  /// How long a turn may take, in nanoseconds.
  var threshold: UInt64 { monitor.turnThreshold }

  // MARK: Checks

  /// Notes what runs now of a loop whose turns have pieces; call it before each check.
  ///
  /// A piece counts from that check. To mark where it ends may take milliseconds, which are not its own.
  func meetWork() {
    guard let work = subject.work, !monitor.isDeferred else { return }
    let word = subject.pulse.word
    if word.phase == .idle { return work.rest() }
    let now = clock.now()
    let began = pulseClock.time(of: word, now: now)
    work.meet(word, isShort: now < began + PieceChecks.interval(subject.limits.threshold))
  }

  /// Checks the loop, and sends a heartbeat if one is due.
  ///
  /// - Parameters:
  ///   - now: The time.
  ///   - freeze: The freeze of the whole process since the last check; nil if there was none.
  /// - Returns: What to do now; never ``TurnMonitor/Decision/beat``.
  func check(at now: Instant, freeze: FreezeEvidence.Freeze?) -> TurnMonitor.Decision {
    // A turn is not late by time in which it may have been frozen, and a stall is shorter only by what is proven.
    let frozen = freeze?.atMost ?? 0
    stall.episode?.addFreeze(freeze?.atLeast ?? 0, at: now)
    subject.heartbeat?.update()
    var reading = read(at: now)
    var outcome = monitor.check(reading, frozen: frozen)
    if outcome.decision == .beat {
      subject.heartbeat?.beat()
      // The courier posts it in a moment.
      thread.didBeat(at: now)
      read(subject.pulse.word, into: &reading)
      outcome = monitor.didBeat(reading, frozen: frozen)
    }
    if outcome.endsSearch { giveUpSearch() }
    if outcome.isNewTurn {
      thread.beginTurn(
        isHeartbeat: reading.word.phase == .heartbeat && monitor.pausedInTurn == 0,
        began: reading.part.isPiece || monitor.pausedInTurn > 0 ? now : reading.turnBegan, at: now)
    } else if reading.word.phase == .idle, !reading.hasPieces, reading.heartbeat.followsTurns {
      thread.rest(at: now, isQuiet: outcome.decision == .quiet)
    }
    return outcome.decision
  }

  /// Reads what the monitor decides by, and looks for another thread that serves the loop.
  private func read(at now: Instant) -> TurnMonitor.Reading {
    if monitor.isDeferred { return observe(at: now) }
    var isOver: Bool { subject.heartbeat?.isOver == true }
    if monitor.isFollowing {
      var reading = observe(at: now)
      if reading.turnEnd == nil, isOver { reading.heartbeat = .over }
      return reading
    }
    // Before the word: a loop that is over may be found so by its thread's end.
    let hasEnded = isOver
    var reading = observe(at: now)
    guard let heartbeat = subject.heartbeat else { return reading }
    if hasEnded {
      reading.heartbeat = .over
    } else if !reading.isSuspended {
      if reading.word.phase == .idle { heartbeat.begin() }
      if heartbeat.isBeating {
        reading.heartbeat = heartbeat.isDue ? .beating : .none
      } else if heartbeat.mayBegin {
        reading.heartbeat = .searching
      }
    }
    return reading
  }

  /// Reads the pulse and the suspension; changes and allocates nothing.
  private func observe(at now: Instant) -> TurnMonitor.Reading {
    var reading = TurnMonitor.Reading(now: now, word: TurnWord(raw: 0), turnBegan: .zero)
    if monitor.isFollowing { reading.turnEnd = subject.pulse.episodeEnd }
    read(subject.pulse.word, into: &reading)
    // In this order: who sees no pause left also sees its time.
    reading.isSuspended = subject.limits.suspension.isActive
    reading.paused = subject.limits.suspension.paused
    return reading
  }

  private func read(_ word: TurnWord, into reading: inout TurnMonitor.Reading) {
    reading.word = word
    reading.turnBegan = pulseClock.time(of: word, now: reading.now)
    // If another turn begins meanwhile this is about that one, and the word is found to have moved before anything is reported.
    guard let work = subject.work else { return }
    (reading.hasExactEnd, reading.hasPieces) = (work.hasExactEnd, work.hasPieces)
    guard word.phase != .idle else { return }
    (reading.part, reading.leastThreshold) = (work.part, work.leastThreshold)
  }

  /// Ends the search for another server of a loop that has turned by itself, and rests.
  func giveUpSearch() { if subject.pulse.word.raw != 0 { subject.heartbeat?.giveUpSearch() } }

  /// Whether the loop has made a transition since the last check.
  var hasMoved: Bool { !isSuspended && monitor.hasMoved(subject.pulse.word) }

  /// Whether the loop is not to be watched for now.
  var isSuspended: Bool { subject.limits.suspension.isActive && stall.episode == nil }

  /// Whether there is a stall now.
  var isStalled: Bool { stall.episode != nil || stall.deferred != nil }

  /// Whether this turn still lasts, with the piece of work that is followed.
  func isLasting(_ turn: TurnWord) -> Bool {
    // The part first: it is this turn's if the turn still lasts afterwards.
    let isSamePart = subject.work.map { monitor.isSeen($0.part) } ?? true
    return isSamePart && subject.pulse.word == turn && subject.pulse.episodeEnd == nil
  }

  /// How long the current turn has lasted, without pauses; 0 if the loop is in no turn.
  func age(at now: Instant) -> UInt64 { monitor.age(observe(at: now)) }

  /// Whether no turn has lasted for the threshold, as far as turns are watched; or if one has, whether the machine keeps it from ending.
  ///
  /// `asksWhy` is false where there is no memory to find out.
  func isHealthy(at now: Instant, asksWhy: Bool = true) -> Bool {
    if monitor.isHealthy(observe(at: now)) { return true }
    guard asksWhy, let episode else { return false }
    return episode.isExcused(at: now, thread.change(at: now), of: thread.id)
  }

  // MARK: The episode

  /// Begins to follow the late turn.
  ///
  /// False if it ended at this very moment, just in time.
  func beginEpisode(turn: TurnWord, id: String, now: Instant) -> Bool {
    guard requestEnd(of: turn) else { return false }
    var late = monitor.checkedTurn
    late.word = turn
    follow(late, id: id, foundAt: now)
    return true
  }

  /// Asks the pulse for the time at which the late turn ends; false if it has ended.
  private func requestEnd(of turn: TurnWord) -> Bool {
    subject.pulse.beginEpisode()
    subject.pulse.fence()
    if subject.pulse.word == turn { return true }
    subject.pulse.cancelEpisode()
    return false
  }

  private func follow(_ turn: TurnMonitor.LateTurn, id: String, foundAt now: Instant) {
    (stall.actionsDone, stall.stolenBefore) = (0, StolenTime.total())
    monitor.follow(turn, foundAt: now, sampling: settings.sampling)
    unseenTurns.followed = turn.word
    stall.episode = Episode(
      id: id, turn: turn.word, start: turn.start, frozen: turn.frozen, frozenUntil: turn.frozenUntil,
      threshold: threshold)
  }

  /// Adds a sample.
  ///
  /// One that is taken right after the first, and beside the plan, does not change when the next are due.
  func add(
    _ sample: Episode.Sample, at time: Instant, isPlanned: Bool = true, callouts: CalloutTimes? = nil,
    usage: ResourceUsage? = nil
  ) {
    stall.episode?.add(
      sample, at: time, isPlanned: isPlanned, callouts: callouts, usage: usage, beginning: thread.beginning)
    if isPlanned { monitor.didSample(at: time) }
  }

  /// Plans the next `stall.ongoing`.
  func didReportOngoing(at time: Instant) { monitor.didReportOngoing(at: time) }

  /// What the loop has called in the late turn.
  func callouts(at time: Instant) -> CalloutTimes? {
    guard let episode, let callouts = subject.pulse.callouts(of: episode.turn) else { return nil }
    return pulseClock.times(of: callouts, now: time)
  }

  /// Notes what has been stolen since the episode began: once for each sample and at the end, as reading it is not cheap.
  func noteStolenTime() {
    guard let before = stall.stolenBefore, let now = StolenTime.total() else { return }
    stall.episode?.stolen = now > before ? now - before : 0
  }

  /// Whether names have shown that the stalled loop is in a run that its observers do not see.
  var isInUnseenRun: Bool { stall.episode.map { unseenRun.isFound(in: $0.turn) } ?? false }

  /// Completes what the last report says: the rest of the turn, and stolen time.
  func completeEpisode() {
    noteStolenTime()
    let end = subject.pulse.episodeEnd
    let now = end ?? clock.now()
    let callouts = callouts(at: now)
    // Read after the end: it may count some of the next turn as well.
    let usage = thread.isServing ? thread.change(at: clock.now()) : nil
    stall.episode?.note(callouts, at: now, isOver: end != nil, usage: usage)
  }

  /// Ignores the turn from now on: what its thread does is no turn that can be judged.
  func ignoreTurn() {
    if let turn = stall.episode?.turn { monitor.ignore(turn) }
    if !logged.unseenRun, let note = subject.inspection.noteOnUnseenRun {
      Diagnostics.say("the \(subject.label.name) loop \(note)")
    }
    logged.unseenRun = true
    endEpisode()
  }

  /// Stops following the stall.
  func endEpisode() {
    subject.pulse.cancelEpisode()
    stall.episode = nil
    monitor.stopFollowing()
    if let next = settings.next { tune(to: next) }
  }

  /// Changes to the plan that applies now; a current stall keeps the plan by which it was found.
  func tune(to plan: WatchPlan) {
    guard stall.episode == nil else { return settings.next = plan }
    if !subject.limits.hasOwnThreshold { monitor.threshold = plan.threshold }
    subject.work?.permit(perfEvents: plan.samplesRunningThreads)
    settings = Settings(
      otherThreads: plan.otherThreads, sampling: plan.sampling, namesFrames: plan.namesFrames)
  }

  // MARK: Late turns that were over before a check

  /// The turns that were late and over before a check met them, since the last call: each as a stall without a stack.
  ///
  /// Call it at each check, before that. `frozen` is for how long the whole process was frozen since the last one. The watchdog may have
  /// had no processor, or may have been busy with another loop.
  ///
  /// - Returns: The stalls, and how many more there were, which together lasted so long.
  func takeUnseenTurns(at now: Instant, frozen: UInt64) -> (stalls: [Episode], lost: UInt64, lostTime: UInt64) {
    noteLateTurns()
    guard let news = unseenTurns.takeNews(of: subject.pulse.lateTurns, capacity: UInt64(CLINUX_LATE_TURNS)) else {
      return ([], 0, 0)
    }
    // In a run that nobody sees the loop may well have turned.
    guard !logged.unseenRun else { return ([], 0, 0) }
    let notes = news.numbers.compactMap(subject.pulse.lateTurn)
    let lost = news.count - UInt64(notes.count)
    let read = notes.reduce(0) { $0 &+ ($1.end &- $1.word >> 2) }
    let stalls = notes.compactMap { note in
      unseenTurns.stall(
        by: pulseClock.note(note, now: now), id: ReportPublisher.makeIdentifier, monitor: monitor,
        paused: subject.limits.suspension.paused(until: now), at: now, frozen: frozen)
    }
    return (stalls, lost, lost == 0 ? 0 : pulseClock.duration(of: news.total &- read))
  }

  /// Has the loop note the turns that last longer than the threshold.
  private func noteLateTurns() {
    // Of other work it is not known whether one piece or several took the time.
    guard subject.work == nil else { return }
    let limit = pulseClock.limit(for: monitor.threshold)
    if limit != unseenTurns.limit { subject.pulse.noteTurns(longerThan: limit) }
    unseenTurns.limit = limit
  }

  // MARK: A late turn without memory for a report

  /// A late turn that was found while there was no memory for a report.
  struct DeferredTurn {
    var turn: TurnMonitor.LateTurn
    var found: Instant
    /// What the thread was doing then, with its stack in the capture's buffer; nil if that is not known.
    var buffered: BufferedSnapshot?
  }

  /// Notes that the turn is late, and takes the stack into the capture's buffer; allocates nothing.
  ///
  /// `sampler` is nil while its buffer holds another loop's stack. Returns whether the buffer holds this one's.
  func deferLateTurn(at now: Instant, with sampler: (any StallSampling)?) -> Bool {
    guard !isStalled, let turn = monitor.lateTurn(observe(at: now)), requestEnd(of: turn.word) else { return false }
    stall.deferred = DeferredTurn(turn: turn, found: now)
    monitor.postpone()
    if !monitor.hasSeen(turn.word) { thread.forgetUsage() }
    guard let sampler, thread.isServing else { return false }
    let buffered = sampler.buffer(thread)
    // A stack that was read after the turn ended belongs to another turn, and one of another thread
    // to another loop.
    guard thread.isServing, isLasting(turn.word) else { return false }
    stall.deferred?.buffered = buffered
    return buffered != nil
  }

  /// Begins the episode of the turn that was deferred.
  ///
  /// Returns what is known of it; nil if there is none.
  func beginDeferredEpisode(id: String, now: Instant) -> DeferredTurn? {
    guard let deferred = stall.deferred else { return nil }
    stall.deferred = nil
    follow(deferred.turn, id: id, foundAt: deferred.found)
    stall.episode?.memoryShortage = now.since(deferred.found)
    return deferred
  }
}
