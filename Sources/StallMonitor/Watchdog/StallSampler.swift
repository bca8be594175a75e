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
    /// The loop turns in a run that its observers do not see: nothing was added.
    case unseenRun
  }

  /// How long the sweep over other threads may take, and then the naming of what it found.
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
  let resolver: FrameResolver

  init(capture: ThreadCapture, resolver: FrameResolver) {
    self.capture = capture
    self.resolver = resolver
  }

  /// Forgets modules that may have been unloaded since; call it when a stall begins.
  func prepare() {
    capture.flush()
    resolver.flush()
  }

  /// Takes a sample of the stalled thread and adds it.
  @discardableResult
  func sample(_ loop: WatchedLoop) -> Finding {
    guard let turn = loop.episode?.turn else { return .nothing }
    loop.noteStolenTime()
    resolver.namesFrames = loop.settings.namesFrames
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
      of: loop.thread.probe, in: moment, with: loop.settings.otherThreads == .none ? nil : capture)
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
    guard name(&sample, moment, chain, of: loop) else { return .unseenRun }
    // As the stack was taken: names take time, and what runs now may be something else.
    if loop.followsSeveralPieces { sample = sample.withoutFunction(.severalJobs) }
    loop.add(sample, at: now, callouts: callouts, usage: usage)
    return .added
  }

  /// Names what was found; false if it is a run that the loop's observers do not see, or if the thread runs no job (``TurnWork``).
  private func name(
    _ sample: inout Episode.Sample, _ moment: ThreadSnapshot, _ chain: WaitChain, of loop: WatchedLoop
  ) -> Bool {
    resolver.beginReport(isFirst: loop.episode?.sampleCount == 0)
    if let work = loop.subject.work, !work.isUnderWay(in: try? moment.backtrace.get()) { return false }
    switch moment.backtrace {
    case .success(let backtrace):
      sample.stack = resolver.resolve(backtrace)
      if loop.subject.inspection.isInUnseenRun(resolver.runLoopFrames(of: sample.stack)) { return false }
      sample.note(backtrace)
    case .failure(let failure): sample.note(failure)
    }
    var chain = chain
    chain.resolve(stack: sample.stack, with: resolver)
    // A thread that is stopped is in no call, and has words of its own.
    if let wait = chain.wait {
      (sample.wait, sample.waitedFor, sample.lockHolder) = (wait, chain.waitedFor, chain.holder)
    }
    (sample.threads, sample.deadlock) = (chain.threads, chain.deadlock)
    // After the new sample's own names: what is left of the time is for those that were left without.
    loop.completeNames(resolver.complete)
    sweep(into: &sample, of: loop)
    return true
  }

  /// Adds the first sample of a stall that had to wait for memory: what was seen of the thread then.
  func addSample(of deferred: WatchedLoop.DeferredTurn, to loop: WatchedLoop) -> Finding {
    resolver.namesFrames = loop.settings.namesFrames
    resolver.beginReport(isFirst: true)
    let moment = deferred.buffered.map { capture.snapshot($0) }
    if let work = loop.subject.work, !work.isUnderWay(in: try? moment?.backtrace.get()) { return .unseenRun }
    guard let moment else {
      loop.add(
        Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .noMemory), at: deferred.found)
      return .added
    }
    var sample = Episode.Sample(
      thread: loop.thread.id, activity: moment.activity,
      cause: Verdict.cause(of: moment.activity, usage: loop.thread.change(at: MonotonicClock.now())), stack: [])
    switch moment.backtrace {
    case .success(let backtrace):
      sample.stack = resolver.resolve(backtrace)
      if loop.subject.inspection.isInUnseenRun(resolver.runLoopFrames(of: sample.stack)) { return .unseenRun }
      sample.note(backtrace)
    case .failure(let failure): sample.note(failure)
    }
    if case .blocked(let call) = moment.activity {
      (sample.wait, sample.waitedFor) = (SystemCall(call).shortText, SystemCall(call).waitedFor)
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
  func followUp(_ loop: WatchedLoop, budget: UInt64, willBegin: () -> Void) {
    guard let episode = loop.episode, canFollowUp(episode, of: loop) else { return }
    willBegin()
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
      let stack = resolver.resolve(backtrace)
      if loop.subject.inspection.isInUnseenRun(resolver.runLoopFrames(of: stack)) { return false }
      var sample = Episode.Sample(
        thread: loop.thread.id, activity: .running,
        cause: Verdict.cause(of: .running, usage: usage), stack: stack, mode: mode,
        callout: callout)
      sample.note(backtrace)
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
    resolver.beginReport(isFirst: loop.episode?.sampleCount == 0)
    if server == .nobody, let pool, loop.settings.otherThreads == .lockHolder, loop.episode?.isSweepDue == true {
      // What keeps the pool's threads from taking it.
      sweep(into: &sample, runningOnly: false) { [resolver] thread in
        var judged = thread
        judged.stack = resolver.libraryFrames(of: thread.stack)
        return pool.owns(judged)
      }
      if pool == .cooperative, let work = otherWork(sample.threads) {
        sample.wait = "no thread of \(pool.name) has started the queued work; \(work)"
      }
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

  /// `3 threads run other work, 2 of them in load(_:), 1 in parse()`; nil if there are none.
  private func otherWork(_ threads: [Report.OtherThread]) -> String? {
    guard !threads.isEmpty else { return nil }
    var counts: [String: Int] = [:]
    for case let frame? in threads.map({ Culprit.frame(of: $0.stack) }) {
      counts[(frame.shortSymbol ?? frame.name).limited(to: 80), default: 0] += 1
    }
    let places = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(4)
    if threads.count == 1 { return "1 thread runs other work" + (places.first.map { ", in \($0.key)" } ?? "") }
    let list = places.enumerated().map { ", \($1.value)\($0 == 0 ? " of them" : "") in \($1.key)" }
    return "\(threads.count) threads run other work" + list.joined()
  }

  private func sweep(into sample: inout Episode.Sample, of loop: WatchedLoop) {
    let threads = loop.settings.otherThreads
    guard threads == .running || threads == .all, loop.episode?.isSweepDue == true else { return }
    sweep(into: &sample, runningOnly: threads == .running) { _ in true }
  }

  private func sweep(
    into sample: inout Episode.Sample, runningOnly: Bool, isWanted: (Report.OtherThread) -> Bool
  ) {
    let sweep = ThreadSweep(
      runningOnly: runningOnly, excluding: Set(sample.threads.map(\.id) + (sample.thread.map { [$0] } ?? [])),
      with: capture, deadline: MonotonicClock.now() + Self.sweepBudget)
    let deadline = MonotonicClock.now() + Self.sweepBudget
    sample.threads += sweep.findings.map { Report.OtherThread($0, resolver: resolver, deadline: deadline) }
      .filter(isWanted).sorted { $0.role < $1.role }
    (sample.threadsLeftOut, sample.isSweep) = (sweep.notLookedAt.count, true)
  }
}
