import StallDetection
import StallReport

/// Follows the stalls of all loops: carries out what each loop's ``TurnMonitor`` decides.
///
/// Belongs to the watchdog's thread.
final class StallFollower {
  private let origin: Report.Origin
  let sampler: any StallSampling
  let sink: any StallSink
  private let clock: any WatchdogClock
  /// Whether stalls are recorded for the case that the process ends in one, or noted for an agent.
  private let keepsRecords: Bool
  private let plan: ActionPlan
  /// For how long the end of a stall is waited for when the watch ends.
  private static let patienceAtTheEnd: UInt64 = 20_000_000

  /// For how long computations that have become late may be sampled once more before the thread waits again.
  var followUpBudget: UInt64 = 0
  /// The capture's buffer holds the stack of a late turn that waits for memory.
  private var isBufferTaken = false

  init(
    origin: Report.Origin, clock: any WatchdogClock, sampler: any StallSampling, sink: any StallSink,
    keepsRecords: Bool, plan: ActionPlan
  ) {
    self.origin = origin
    self.sampler = sampler
    self.sink = sink
    self.clock = clock
    self.keepsRecords = keepsRecords
    self.plan = plan
  }

  /// Checks a loop and does what is due.
  ///
  /// Returns when to check again, or nil while nothing moves.
  func follow(_ loop: WatchedLoop, freeze: FreezeEvidence.Freeze?) -> Instant? {
    var freeze = freeze
    // Each step leads to another check; a bound, so that one loop cannot keep the thread for itself.
    for _ in 0..<4 {
      loop.meetWork()
      let now = clock.now()
      if loop.isInUnseenRun { finish(loop, at: now, isIgnored: true) }
      reportUnseenTurns(of: loop, at: now, frozen: freeze?.atMost ?? 0)
      let decision = loop.check(at: now, freeze: freeze)
      freeze = nil
      if needsReport(decision), !mayReport {
        // It may end before there is memory.
        if case .late = decision { deferLateTurn(of: loop, at: now) }
        return now + AvailableMemory.retryInterval
      }
      switch decision {
      case .quiet, .beat: return nil
      case .checkAgain(let time):
        let actions = dueActions(of: loop, at: now)
        if !actions.isEmpty { post(loop.update(.ongoing, end: now), isReportDue: false, actions) }
        return min(time, nextAction(of: loop) ?? .never)
      case .late(let turn): begin(loop, turn, at: now)
      case .due(_, let ongoing): sample(loop, isOngoingDue: ongoing, at: now)
      case .ended(let end): finish(loop, at: end)
      case .deferred: return now + AvailableMemory.retryInterval
      }
    }
    return clock.now()
  }

  private func needsReport(_ decision: TurnMonitor.Decision) -> Bool {
    switch decision {
    case .quiet, .checkAgain, .beat, .deferred: false
    case .late, .due, .ended: true
    }
  }

  /// Begins to follow a late turn, and reports it.
  private func begin(_ loop: WatchedLoop, _ turn: TurnWord, at now: Instant) {
    guard loop.beginEpisode(turn: turn, id: ReportPublisher.makeIdentifier(), now: now) else { return }
    // Before the sample, which takes long if the stack is deep: the duration of the report runs to `now`.
    let found = Timestamp.now()
    sampler.prepare(loop)
    if case .noWork = sampler.sample(loop) { return loop.ignoreTurn() }
    if followUpBudget > 0 {
      let begin = clock.now()
      sampler.followUp(loop, budget: followUpBudget)
      followUpBudget -= min(followUpBudget, clock.now().since(begin))
    }
    post(loop.update(.started, end: now, time: found), dueActions(of: loop, at: now))
  }

  /// Takes a sample of a stall that lasts, and reports that it does if that is due.
  private func sample(_ loop: WatchedLoop, isOngoingDue: Bool, at now: Instant) {
    if case .noWork = sampler.sample(loop) { return finish(loop, at: now, isIgnored: true) }
    if isOngoingDue {
      // The stall may have ended while it was sampled: then only its end is reported.
      if loop.subject.pulse.episodeEnd != nil { return }
      loop.didReportOngoing(at: now)
    }
    let actions = dueActions(of: loop, at: now)
    guard isOngoingDue || keepsRecords || !actions.isEmpty else { return }
    post(loop.update(.ongoing, end: now), isReportDue: isOngoingDue, actions)
  }

  private func post(_ update: StallUpdate?, isReportDue: Bool = true, _ actions: [StallAction.Kind] = []) {
    guard var update else { return }
    (update.isReportDue, update.actions) = (isReportDue, actions)
    sink.post(update)
  }

  // MARK: Actions

  /// The actions that have become due in the current stall, each once.
  private func dueActions(of loop: WatchedLoop, at time: Instant, isOver: Bool = false) -> [StallAction.Kind] {
    guard let episode = loop.episode else { return [] }
    let due = plan.due(after: episode.duration(at: time), done: loop.stall.actionsDone)
    // It may have ended just now; then what is left is run when its end has been reported.
    guard !due.isEmpty, isOver || loop.subject.pulse.episodeEnd == nil else { return [] }
    loop.stall.actionsDone += due.count
    return due
  }

  /// When the next action of the current stall is due; nil if none is.
  private func nextAction(of loop: WatchedLoop) -> Instant? {
    guard let episode = loop.episode, let level = plan.nextLevel(done: loop.stall.actionsDone) else { return nil }
    return episode.start + episode.frozen + level
  }

  // MARK: Without memory

  /// Whether there is memory for a report, which may take a sample: not while the capture's buffer is taken.
  private var mayReport: Bool { !isBufferTaken && AvailableMemory.isEnough }

  /// Whether there is memory for what ``beginDeferredEpisodes(of:)`` has to do.
  func mayBeginDeferredEpisodes(of loops: [WatchedLoop]) -> Bool {
    !loops.contains { $0.stall.deferred != nil } || AvailableMemory.isEnough
  }

  /// Notes which loops are late; allocates nothing.
  func deferLateTurns(of loops: [WatchedLoop]) {
    let now = clock.now()
    for loop in loops { deferLateTurn(of: loop, at: now) }
  }

  private func deferLateTurn(of loop: WatchedLoop, at now: Instant) {
    if loop.deferLateTurn(at: now, with: isBufferTaken ? nil : sampler) { isBufferTaken = true }
  }

  /// There is memory again: begins what was deferred, before any other capture uses the buffer.
  func beginDeferredEpisodes(of loops: [WatchedLoop]) {
    for loop in loops where loop.stall.deferred?.buffered != nil {
      beginDeferredEpisode(of: loop, at: clock.now())
    }
    for loop in loops where loop.stall.deferred != nil { beginDeferredEpisode(of: loop, at: clock.now()) }
    isBufferTaken = false
  }

  private func beginDeferredEpisode(of loop: WatchedLoop, at now: Instant) {
    if let turn = loop.beginDeferredEpisode(id: ReportPublisher.makeIdentifier(), now: now),
      case .noWork = sampler.addSample(of: turn, to: loop)
    {
      return loop.ignoreTurn()
    }
    if loop.subject.pulse.episodeEnd == nil { post(loop.update(.started, end: now)) }
  }

  // MARK: The end

  /// Reports turns that were late and over before this check.
  private func reportUnseenTurns(of loop: WatchedLoop, at now: Instant, frozen: UInt64) {
    let unseen = loop.takeUnseenTurns(at: now, frozen: frozen)
    for stall in unseen.stalls { post(loop.update(unseen: stall)) }
    if unseen.lost > 0, let last = unseen.stalls.last {
      sink.post(lost: unseen.lost, lasting: unseen.lostTime, like: loop.update(unseen: last))
    }
  }

  /// Gives stalls a moment to end: a task may not have left its thread yet when another one that awaits it stops the monitor.
  func awaitEnds(of loops: [WatchedLoop]) {
    let latest = clock.now() + Self.patienceAtTheEnd
    // An end that only checks notice does not come by itself.
    func mayEnd(_ loop: WatchedLoop) -> Bool {
      loop.isStalled && loop.hasExactEnd && loop.subject.pulse.episodeEnd == nil
    }
    while loops.contains(where: mayEnd), clock.now() < latest { clock.sleep(for: 500_000) }
  }

  /// Closes the open stalls when the watch ends during a stall.
  func finish(_ loops: [WatchedLoop]) {
    for loop in loops {
      reportUnseenTurns(of: loop, at: clock.now(), frozen: 0)
      guard loop.isStalled else { continue }
      if loop.stall.deferred != nil { beginDeferredEpisode(of: loop, at: clock.now()) }
      let end = loop.subject.pulse.episodeEnd
      finish(loop, at: end ?? clock.now(), watchEnded: end == nil)
    }
  }

  private func finish(
    _ loop: WatchedLoop, at end: Instant, watchEnded: Bool = false, isIgnored: Bool = false
  ) {
    loop.completeEpisode()
    let actions = watchEnded || isIgnored ? [] : dueActions(of: loop, at: end, isOver: true)
    if var update = loop.update(.ended, end: end) {
      (update.watchEnded, update.isIgnored) = (watchEnded, isIgnored)
      post(update, actions)
    }
    if isIgnored { loop.ignoreTurn() } else { loop.endEpisode() }
  }

  /// Ends without a report of what is open; allocates nothing.
  ///
  /// Returns how many loops have a stall of which nothing was handed over.
  func abandon(_ loops: [WatchedLoop]) -> Int {
    for loop in loops where loop.isStalled { loop.subject.pulse.cancelEpisode() }
    return loops.count { $0.stall.deferred != nil }
  }

  /// Reports a freeze of the process, if it lasted as long as some loop's threshold.
  func reportFreeze(_ frozen: UInt64, of loops: [WatchedLoop]) {
    guard let loop = loops.first(where: { frozen >= max($0.threshold, FreezeEvidence.worthReporting) }) else { return }
    sink.post(freeze: loop.freezeReport(lasting: frozen, id: ReportPublisher.makeIdentifier(), origin: origin))
  }
}
