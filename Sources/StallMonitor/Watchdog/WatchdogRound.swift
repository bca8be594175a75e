import Glibc
import StallReport

/// What the watchdog does for each loop: it follows late turns, and carries out what is due.
///
/// Belongs to the watchdog's thread.
final class WatchdogRound {
  let context: WatchdogContext
  /// What is in force.
  var plan: WatchPlan
  /// For how long computations that have become late may be looked at once more before the thread waits again.
  var followUpBudget: UInt64 = 0
  /// The capture's buffer holds the stack of a late turn that waits for memory.
  private var isBufferTaken = false

  init(context: WatchdogContext) {
    self.context = context
    plan = WatchPlan(context.configuration, Tuning(), sinkNames: context.sink.namesFrames)
  }

  /// Looks at a loop and does what is due.
  ///
  /// Returns when to look again, or nil while nothing moves.
  func follow(_ loop: WatchedLoop, frozen: UInt64) -> UInt64? {
    var frozen = frozen
    // Each step leads to another look; a bound, so that one loop cannot keep the thread for itself.
    for _ in 0..<4 {
      let now = MonotonicClock.now()
      let step = loop.look(at: now, frozen: frozen)
      frozen = 0
      // An earlier loop's report may have taken long.
      if needsReport(step), !MemoryRoom.isEnough { return now + MemoryRoom.retryInterval }
      switch step {
      case .quiet: return nil
      case .lookAgain(let time):
        act(on: loop, at: now)
        return min(time, nextAction(for: loop) ?? .max)
      case .late(let turn):
        guard loop.beginEpisode(turn: turn, id: ReportPublisher.makeIdentifier(), now: now) else { continue }
        beginRecovery(of: loop)
        context.capture.flush()
        context.resolver.flush()
        loop.takeSample(with: context.capture, resolver: context.resolver)
        if loop.isInUnseenRun {
          loop.overlookTurn()
          continue
        }
        let found = Timestamp.now()
        if let report = loop.report(.started, end: now, origin: context.origin),
          followUpBudget > 0, !context.publisher.ledger.knows(report, at: now)
        {
          let begin = MonotonicClock.now()
          // Write the record first: the process may end meanwhile.
          loop.takeFollowUpSamples(with: context.capture, resolver: context.resolver, budget: followUpBudget) {
            keepRecord(of: loop)
          }
          followUpBudget -= min(followUpBudget, MonotonicClock.now() - begin)
        }
        if var report = loop.report(.started, end: now, origin: context.origin) {
          report.time = found
          loop.isTold = context.publisher.begin(report)
        }
        context.resolver.trim()
        keepRecord(of: loop)
        act(on: loop, as: .started, at: now)
      case .due(let sample, let ongoing):
        if sample || ongoing { loop.takeSample(with: context.capture, resolver: context.resolver) }
        if loop.isInUnseenRun {
          finish(loop, at: now, isOverlooked: true)
          continue
        }
        if ongoing {
          // The stall may have ended while it was sampled: then only its end is reported.
          if loop.subject.pulse.episodeEnd != nil { continue }
          if let report = loop.report(.ongoing, end: now, origin: context.origin) {
            loop.isTold = context.publisher.goOn(report, isTold: loop.isTold)
          }
          loop.didReportOngoing(at: now)
        }
        context.resolver.trim()
        keepRecord(of: loop)
        act(on: loop, at: now)
      case .ended(let end):
        finish(loop, at: end)
      case .held: return now + MemoryRoom.retryInterval
      }
    }
    return MonotonicClock.now()
  }

  private func needsReport(_ step: WatchedLoop.Step) -> Bool {
    switch step {
    case .quiet, .lookAgain, .held: false
    case .late, .due, .ended: true
    }
  }

  /// Notes which loops are late; allocates nothing.
  func holdLateTurns(of loops: [WatchedLoop]) {
    let now = MonotonicClock.now()
    for loop in loops where loop.holdLateTurn(at: now, with: isBufferTaken ? nil : context.capture) {
      isBufferTaken = true
    }
  }

  /// There is memory again: begins what is held, before any other capture uses the buffer.
  func beginHeldEpisodes(of loops: [WatchedLoop]) {
    for loop in loops where loop.held?.sighting != nil { beginHeldEpisode(of: loop, at: MonotonicClock.now()) }
    for loop in loops where loop.held != nil { beginHeldEpisode(of: loop, at: MonotonicClock.now()) }
    isBufferTaken = false
  }

  private func beginHeldEpisode(of loop: WatchedLoop, at now: UInt64) {
    context.resolver.flush()
    loop.beginHeldEpisode(
      id: ReportPublisher.makeIdentifier(), now: now, with: context.capture, resolver: context.resolver)
    beginRecovery(of: loop)
    guard loop.subject.pulse.episodeEnd == nil, let report = loop.report(.started, end: now, origin: context.origin)
    else { return }
    loop.isTold = context.publisher.begin(report)
    keepRecord(of: loop)
  }

  /// Goes over to another plan: what an agent has said.
  ///
  /// A host that is switched off has nothing open and nothing counted that is not told.
  func follow(_ new: WatchPlan, _ loops: [WatchedLoop]) {
    if plan.isEnabled, !new.isEnabled {
      context.suspension.switchOff()
      finish(loops)
      _ = context.publisher.summarize(closing: true)
    }
    if !plan.isEnabled, new.isEnabled { context.suspension.switchOn() }
    plan = new
    context.capture.samplesRunningThreads = new.samplesRunningThreads
    context.publisher.ledger.retune(window: new.repeatWindow, budget: new.budget)
    for loop in loops { loop.tune(to: new) }
  }

  /// Closes what is open when the watch ends in mid-stall.
  func finish(_ loops: [WatchedLoop]) {
    for loop in loops where loop.isStalled {
      if loop.held != nil { beginHeldEpisode(of: loop, at: MonotonicClock.now()) }
      let end = loop.subject.pulse.episodeEnd
      finish(loop, at: end ?? MonotonicClock.now(), watchEnded: end == nil)
    }
  }

  private func finish(
    _ loop: WatchedLoop, at end: UInt64, watchEnded: Bool = false, isOverlooked: Bool = false
  ) {
    // First of all: the same stall is never told as ended and as fatal.
    loop.subject.pulse.record?.end()
    loop.subject.pulse.recovery?.close(at: end)
    loop.completeEpisode(with: context.resolver)
    let report = loop.report(.ended, end: end, origin: context.origin, watchEnded: watchEnded)
    if let report, let episode = loop.episode { context.publisher.end(report, of: episode, isTold: loop.isTold) }
    context.resolver.trim()
    if !watchEnded, !isOverlooked { act(on: loop, as: .ended, at: end) }
    if isOverlooked { loop.overlookTurn() } else { loop.endEpisode() }
  }

  /// Reports a freeze of the process, if it lasted as long as some loop's threshold.
  func tellFreeze(_ frozen: UInt64, of loops: [WatchedLoop]) {
    guard plan.isEnabled,
      let loop = loops.first(where: { frozen >= max($0.subject.threshold, FreezeDetector.worthTelling) })
    else {
      return
    }
    context.publisher.tellFreeze(
      loop.freezeReport(lasting: frozen, id: ReportPublisher.makeIdentifier(), origin: context.origin))
  }

  /// Has the loop note for the agent when the stall is over; before the agent hears of it.
  private func beginRecovery(of loop: WatchedLoop) {
    guard let recovery = context.recovery, let episode = loop.episode else { return }
    let pulse = loop.subject.pulse
    guard let place = pulse.recovery else { return recovery.setIncomplete() }
    place.begin(episode.id, turn: episode.turn.raw, since: episode.start + episode.frozen) { pulse.episodeEnd }
  }

  /// What is to be told of the stall if the process ends now.
  private func keepRecord(of loop: WatchedLoop, aborting: Bool = false) {
    let pulse = loop.subject.pulse
    if let episode = loop.episode { pulse.recovery?.update(since: episode.start + episode.frozen) }
    guard let recorder = context.recorder, let record = pulse.record, let turn = loop.stalledTurn,
      var report = loop.report(.fatal, end: MonotonicClock.now(), origin: context.origin), pulse.episodeEnd == nil
    else { return }
    report.sequence = context.publisher.sequence + 1
    report.isAborting = aborting
    if !context.sink.writtenDetails.contains(report.stallID) { report.detailFile = nil }
    recorder.keep(report, in: record, turn: turn) { pulse.episodeEnd != nil }
  }

  // MARK: Actions

  /// Has the closures called, with the path of the detail file if that has been written by then.
  private func call(_ due: [StallAction.Deed], of report: Report, isTold: Bool) {
    guard let courier = context.actionCourier else { return }
    var other = report
    other.detailFile = nil
    let (notice, noticeWithoutDetail) = (StallNotice(report, isTold: isTold), StallNotice(other, isTold: isTold))
    let written = context.sink.writtenDetails
    for case .call(let handler) in due {
      courier.post {
        let hasFile = notice.detailFile != nil && written.contains(notice.id, within: DetailWriter.patience)
        handler.body(hasFile ? notice : noticeWithoutDetail)
      }
    }
  }

  /// When the next action is due of the stall under way.
  private func nextAction(for loop: WatchedLoop) -> UInt64? {
    guard let episode = loop.episode, let level = context.actions.nextLevel(done: loop.actionsDone) else { return nil }
    return episode.start + episode.frozen + level
  }

  /// Does what the stall under way has lasted long enough for; after what is to be written of it.
  private func act(on loop: WatchedLoop, as event: Report.Event = .ongoing, at time: UInt64) {
    guard let episode = loop.episode else { return }
    let due = context.actions.due(after: episode.duration(at: time), done: loop.actionsDone)
    guard !due.isEmpty else { return }
    // It may have ended just now; then what is left is done when its end has been told.
    if event != .ended, loop.subject.pulse.episodeEnd != nil { return }
    loop.actionsDone += due.count
    guard var report = loop.report(event, end: time, origin: context.origin) else { return }
    if due.contains(.writeDetailFile) {
      loop.detailFile = context.publisher.writeDetail(report, of: episode)
      report.detailFile = loop.detailFile
      if event != .ended { keepRecord(of: loop) }
    }
    report.sequence = context.publisher.sequence + (loop.isTold ? 0 : 1)
    call(due, of: report, isTold: loop.isTold)
    guard due.contains(.abort), loop.subject.pulse.episodeEnd == nil else { return }
    guard var last = loop.report(.ongoing, end: MonotonicClock.now(), origin: context.origin) else { return }
    last.isAborting = true
    context.publisher.tellLast(last)
    keepRecord(of: loop, aborting: true)
    context.actionCourier?.drain()
    ProcessAbort.happen(for: loop.subject.threadID)
  }
}
