import PlatformLibc
import StallCapture
import StallReport

/// Takes the samples of stalls: the state of the loop's thread, the threads that it waits for, and
/// other threads.
///
/// Belongs to the watchdog's thread.
final class StallSampler {
  /// What a sample has shown.
  enum Finding {
    case added
    /// The turn ended during the capture.
    case nothing
    /// The thread runs none of the work that its turns consist of (``TurnWork``): nothing was added.
    case noWork
  }

  /// How long the sweep over other threads may take.
  private static let sweepBudget: UInt64 = 200_000_000

  /// How many samples follow the first one of a stall on CPU at once.
  private static let followUps = 4
  /// How long those of all loops may take together.
  ///
  /// A timer's sample takes a tick of the kernel's clock, 4 ms where it counts 250 of them a second: there is time for one sample, or two.
  static let followUpTime: UInt64 = 5_500_000
  /// With a longer ``WatchedLoop/Settings/sampling`` there are no such samples.
  private static let longestSamplingForFollowUps: UInt64 = 1_000_000_000

  let capture: ThreadCapture
  let reader: FrameReader

  init(capture: ThreadCapture, reader: FrameReader) {
    self.capture = capture
    self.reader = reader
  }

  /// Forgets modules that may have been unloaded since; call it when a stall begins.
  func prepare(_ loop: WatchedLoop) {
    capture.flush()
    reader.flush()
    loop.stall.runLoopModule = reader.runLoopModule()
  }

  /// Takes a sample of the stalled thread and adds it.
  @discardableResult
  func sample(_ loop: WatchedLoop) -> Finding {
    guard let turn = loop.episode?.turn else { return .nothing }
    loop.noteStolenTime()
    let server = loop.thread.follow()
    guard case .thread = server else {
      addSample(without: server, of: turn, to: loop)
      return .added
    }
    let before = loop.subject.inspection.state()
    let work = loop.subject.work
    let hadWaitingWork = work?.hasWaitingWork ?? false
    let moment = capture.capture(
      loop.thread.probe, stackEnd: loop.thread.stackEnd, isWorker: loop.thread.isWorker)
    let chain = WaitChain(
      of: loop.thread.probe, in: moment, with: loop.settings.otherThreads == .none ? nil : capture,
      reader: reader)
    let now = MonotonicClock.now()
    let usage = loop.thread.change(at: now)
    let callouts = loop.callouts(at: now)
    // A thread that no processor served can have begun its callout during the capture.
    let after = loop.subject.inspection.state()
    var sample = Episode.Sample(
      thread: loop.thread.id, activity: moment.activity,
      cause: Verdict.cause(of: moment.activity, usage: usage), stack: [],
      mode: before.mode ?? after.mode, callout: before.callout ?? after.callout)
    if let work {
      sample.task = work.task
      sample.starves = hadWaitingWork && work.hasWaitingWork
    }
    // A stack that was read after the turn ended belongs to another turn.
    guard loop.isLasting(turn) else {
      guard loop.episode?.sampleCount == 0 else { return .nothing }
      loop.add(Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .turnEnded), at: now)
      return .added
    }
    // The same thread before and after, and work for it all the time: it is that work's stack.
    guard loop.thread.server == server else {
      loop.add(Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .serverChanged), at: now)
      return .added
    }
    if let work, !work.isUnderWay(in: try? moment.backtrace.get()) { return .noWork }
    note(moment.backtrace, in: &sample, of: loop)
    // A thread that is stopped is in no call, and has words of its own.
    if let wait = chain.wait { (sample.wait, sample.waitedFor, sample.chain) = (wait, chain.waitedFor, chain) }
    sweep(into: &sample, of: loop)
    // As the stack was taken: what runs now may be something else.
    if loop.followsSeveralPieces { sample = sample.withoutFunction(.severalJobs) }
    loop.add(sample, at: now, callouts: callouts, usage: usage)
    return .added
  }

  private func note(
    _ backtrace: Result<Backtrace, CaptureFailure>, in sample: inout Episode.Sample, of loop: WatchedLoop
  ) {
    sample.threadName = ProcessHandle.own.name(of: loop.thread.id)
    switch backtrace {
    case .success(let backtrace):
      sample.stack = reader.frames(of: backtrace)
      sample.knownRuns = loop.subject.inspection.knownRuns()
      sample.note(backtrace)
    case .failure(let failure): sample.note(failure)
    }
  }

  /// Adds the first sample of a stall that had to wait for memory: what was seen of the thread then.
  func addSample(of deferred: WatchedLoop.DeferredTurn, to loop: WatchedLoop) -> Finding {
    let moment = deferred.buffered.map { capture.snapshot($0) }
    if let work = loop.subject.work, !work.isUnderWay(in: try? moment?.backtrace.get()) { return .noWork }
    guard let moment else {
      loop.add(
        Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .noMemory), at: deferred.found)
      return .added
    }
    var sample = Episode.Sample(
      thread: loop.thread.id, activity: moment.activity,
      cause: Verdict.cause(of: moment.activity, usage: loop.thread.change(at: MonotonicClock.now())), stack: [])
    note(moment.backtrace, in: &sample, of: loop)
    if case .blocked(let call) = moment.activity {
      (sample.wait, sample.waitedFor) = (SystemCall(call, in: .own).shortText, SystemCall(call, in: .own).waitedFor)
    }
    loop.add(sample, at: deferred.found)
    return .added
  }

  // MARK: Follow-up samples

  /// Takes a few more samples of a stall on CPU, right after the first.
  ///
  /// The fingerprint of a stall on CPU is the function that most samples share. These samples give
  /// the first line, and a short stall, the same fingerprint as the whole stall. Only of a thread
  /// that has hardly waited in this turn; for `budget` nanoseconds and a threshold at most, and
  /// only until the turn ends.
  func followUp(_ loop: WatchedLoop, budget: UInt64) {
    guard let episode = loop.episode, canFollowUp(episode, of: loop) else { return }
    let (turn, server) = (episode.turn, loop.thread.server)
    var taken = 0
    capture.follow(
      loop.thread.probe, until: MonotonicClock.now() + min(budget, loop.threshold),
      isOver: { !loop.isLasting(turn) }
    ) { backtrace in
      let now = MonotonicClock.now()
      let usage = loop.thread.change(at: now)
      let (mode, callout) = loop.subject.inspection.state()
      // A sample that was taken after the turn ended belongs to another turn.
      guard loop.isLasting(turn), loop.thread.server == server else { return false }
      var sample = Episode.Sample(
        thread: loop.thread.id, activity: .running,
        cause: Verdict.cause(of: .running, usage: usage), stack: [], mode: mode,
        callout: callout)
      note(.success(backtrace), in: &sample, of: loop)
      sample.task = loop.subject.work?.task
      loop.add(sample, at: now, isPlanned: false, callouts: loop.callouts(at: now), usage: usage)
      taken += 1
      return taken < Self.followUps
    }
  }

  private func canFollowUp(_ episode: Episode, of loop: WatchedLoop) -> Bool {
    guard episode.sampleCount == 1, loop.settings.sampling <= Self.longestSamplingForFollowUps,
      !loop.thread.isShared, let sample = episode.heaviest,
      sample.activity == .running, sample.thread == loop.thread.id, !sample.stack.isEmpty,
      loop.thread.isServing, let change = loop.thread.change(at: MonotonicClock.now())
    else { return false }
    // The kernel's numbers may be a tick old.
    return change.readyTime + change.observed / 16 + 5_000_000 >= change.observed
  }

  // MARK: Other threads

  /// Adds that no thread was met, and why.
  private func addSample(without server: LoopServer, of turn: Pulse.Word, to loop: WatchedLoop) {
    var sample = Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .unknownServer)
    let pool = loop.thread.pool
    if server == .nobody, let pool {
      sample.cause = .starved
      sample.wait = "no thread of \(pool.name) has started the queued work"
      sample.failure = .noServer
    }
    if server == .nobody, let pool, loop.settings.otherThreads == .lockHolder, loop.episode?.isSweepDue == true {
      // What keeps the pool's threads from taking it.
      sample.pool = pool
      sweep(into: &sample, runningOnly: false)
    }
    sweep(into: &sample, of: loop)
    // A thread may have come in the meantime.
    guard loop.isLasting(turn), loop.thread.server == server else {
      sample.cause = .unknown
      sample.wait = nil
      sample.failure = loop.subject.pulse.word == turn ? .serverChanged : .turnEnded
      if loop.episode?.sampleCount == 0 { loop.add(sample, at: MonotonicClock.now()) }
      return
    }
    loop.add(sample, at: MonotonicClock.now())
  }

  private func sweep(into sample: inout Episode.Sample, of loop: WatchedLoop) {
    let threads = loop.settings.otherThreads
    guard threads == .running || threads == .all, loop.episode?.isSweepDue == true else { return }
    sweep(into: &sample, runningOnly: threads == .running)
  }

  private func sweep(into sample: inout Episode.Sample, runningOnly: Bool) {
    let sweep = ThreadSweep(
      runningOnly: runningOnly,
      excluding: Set(sample.threads.map(\.id) + (sample.chain?.threads ?? sample.thread.map { [$0] } ?? [])),
      with: capture, deadline: MonotonicClock.now() + Self.sweepBudget)
    sample.threads += sweep.findings.map { Report.OtherThread($0, reader) }.sorted { $0.role < $1.role }
    (sample.threadsLeftOut, sample.isSweep) = (sweep.notLookedAt.count, true)
  }
}
