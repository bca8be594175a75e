import CUnwind
import Glibc
import StallReport

/// The watchdog's view of one loop: is the current turn late, and what is being done about it.
///
/// Lives on the watchdog thread; the pulse and the description are what the loop's side shares with it.
final class WatchedLoop {
  /// A loop, as whoever watches it describes it.
  ///
  /// The closure is called on the watchdog, while the loop's thread may stand anywhere: it must take no lock.
  struct Subject: Sendable {
    var name: String
    /// Which run loop it is.
    var kind: @Sendable () -> String
    /// The thread that serves it, unless the heartbeat knows another.
    var threadID: Int32
    /// Where that thread's stack ends, or 0.
    var stackEnd: UInt64
    var threshold: UInt64
    /// The threshold is the loop's own, and not the one that holds for all.
    var hasOwnThreshold = false
    var pulse: Pulse
    var suspension: Suspension
    var state: @Sendable () -> (mode: String?, callout: String?)
    /// Whether a stack shows a run that the loop's observers are not told of: then the loop may well turn.
    var isInUnseenRun: @Sendable ([StackFrame]) -> Bool = { _ in false }
    /// Which other threads are looked at in a stall.
    var captureThreads = StallMonitorConfiguration.ThreadSelection.lockHolder
    /// When a stall is looked at for the second time after the first, in nanoseconds.
    var sampling: UInt64 = 100_000_000
    /// What takes the place of observers where there are none.
    var heartbeat: (any Heartbeat)?
    /// Whether its kind is known only when it has turned.
    var findsKind = false
    /// Where its turns are counted, if anybody wants to know.
    var turns: TurnSource?

    /// Which run loop it is, as far as that is known yet.
    var knownKind: String? { !findsKind || pulse.word.raw != 0 || heartbeat?.isBeating == true ? kind() : nil }
  }

  /// How long the sweep over other threads may take, and then the naming of what it found.
  private static let sweepBudget: UInt64 = 200_000_000

  /// How many samples follow a computation's first one at once, and how long those of all loops may take together.
  ///
  /// A timer's sample takes a tick of the kernel's clock, 4 ms where it counts 250 of them a second: one of them, or two.
  private static let followUps = 4
  static let followUpTime: UInt64 = 5_500_000
  /// Whoever wants to be looked at more seldom has no such samples.
  private static let longestSamplingForFollowUps: UInt64 = 1_000_000_000

  /// After how many thresholds of turns of its own no other thread is expected to serve a loop.
  private static let thresholdsOfSearch: UInt64 = 4
  /// How seldom it is looked at most for whoever serves a loop that never turns.
  private static let longestSearchInterval: UInt64 = 60_000_000_000

  private(set) var subject: Subject
  /// Whether frames get names in this process.
  private(set) var namesFrames = true
  /// What is in force once the stall under way is over.
  private var plan: WatchPlan?
  private var probe: ThreadProbe
  private let clock: PulseClock
  // The word at the last look, and when its turn began. At first that of a loop that never turned.
  private var seen = Pulse.Word(raw: 0)
  private var seenSince: UInt64 = 0
  private(set) var episode: Episode?
  /// A late turn that waits for memory.
  var held: HeldTurn?
  // A late turn in which the loop turns in a run that is not seen.
  private var overlooked: Pulse.Word?
  private var hasSaidUnseen = false
  /// Whether the last sample met the loop in such a run.
  private(set) var isInUnseenRun = false
  /// Whether the stall under way has been told.
  var isTold = false
  /// How many of the actions have been done for the stall under way.
  var actionsDone = 0
  /// The kinds that it has been said to be.
  var saidKinds: Set<String> = []
  /// The detail file of the stall under way, if it has been written.
  var detailFile: String?
  // For how long of the turn under way the whole process was frozen.
  private var frozenInTurn: UInt64 = 0
  private var frozenUntil: UInt64 = 0
  // What had been stolen from the machine's processors when the episode began.
  private var stolenBefore: UInt64?
  private let throttle = ThrottleCounter()
  private let pressure: PressureCounter? = PressureCounter()
  // When it is looked again for whoever serves a loop that has not turned yet.
  private var searchTime: UInt64 = 0
  private var searchInterval: UInt64 = 0
  // When it was first seen to turn by itself.
  private var turningSince: UInt64?
  // No heartbeat is queued before this time.
  private var nextBeat: UInt64 = 0
  // What had been counted when this turn, or the thread that serves it now, was first looked at.
  private var baseline: ThreadUsage?
  // The same when the last beat was handed to the courier.
  private var beatBaseline: ThreadUsage?

  init(_ subject: Subject, clock: PulseClock) {
    self.subject = subject
    self.clock = clock
    probe = ThreadProbe(thread: subject.threadID)
  }

  /// What a look at the loop leads to.
  enum Step: Equatable {
    /// Nothing moved since the last look, and no turn is under way: nothing to watch.
    case quiet
    /// Look again at this time.
    case lookAgain(at: UInt64)
    /// The turn is late: begin an episode.
    case late(Pulse.Word)
    /// A sample of the stall is due, or a `stall.ongoing` report, or both.
    case due(sample: Bool, ongoing: Bool)
    /// The late turn has ended.
    case ended(at: UInt64)
    /// A late turn was found while there was no memory for a report.
    case held
  }

  /// Looks at the loop.
  ///
  /// - Parameters:
  ///   - now: The time.
  ///   - frozen: For how long the whole process was frozen since the last look: no loop is late by that time.
  /// - Returns: What to do now.
  func look(at now: UInt64, frozen: UInt64) -> Step {
    if held != nil { return .held }
    if episode != nil {
      episode?.addFreeze(frozen, at: now)
      return lookAtEpisode(now)
    }
    if subject.heartbeat?.isOver == true { return .quiet }
    var word = subject.pulse.word
    if subject.suspension.isActive {
      // Nothing to look at, and nothing to be woken for, until it ends.
      seen = word
      return .quiet
    }
    if word.phase == .idle, let heartbeat = subject.heartbeat {
      heartbeat.begin()
      if heartbeat.isBeating {
        seen = word
        guard now >= nextBeat else { return .lookAgain(at: nextBeat) }
        // On a grid: one wake-up serves all loops.
        nextBeat = (now / subject.threshold + 1) * subject.threshold
        heartbeat.beat()
        // The courier posts it in a moment; what is counted from here on belongs to its turn.
        beatBaseline = usage(at: now)
        word = subject.pulse.word
        if word.phase == .idle { return .lookAgain(at: nextBeat) }
      } else if word.raw == 0, heartbeat.mayBegin {
        // No run loop has turned yet: it may be that none ever will.
        return .lookAgain(at: nextSearch(at: now))
      }
    }
    endSearchIfTurning(word, at: now)
    if word.phase == .idle {
      if word == seen { return .quiet }
      seen = word
      // A turn that begins after this moment cannot be late before then.
      return .lookAgain(at: now + subject.threshold)
    }
    if word == overlooked {
      seen = word
      return .quiet
    }
    if word != seen {
      seen = word
      seenSince = clock.time(of: word, now: now)
      frozenInTurn = 0
      let thread = probe.id
      _ = meetServer()
      baseline = word.phase == .heartbeat && thread == probe.id ? beatBaseline ?? usage(at: now) : usage(at: now)
    }
    let start = turnStart
    if frozen > 0 { frozenUntil = now }
    frozenInTurn += min(frozen, now > start + frozenInTurn ? now - start - frozenInTurn : 0)
    let deadline = start + frozenInTurn + subject.threshold
    return now < deadline ? .lookAgain(at: deadline) : .late(word)
  }

  /// When the turn that was seen last began, or the loop was resumed in it.
  private var turnStart: UInt64 { max(seenSince, subject.suspension.resumedAt) }

  /// When to look again for whoever serves the loop: ever more seldom.
  private func nextSearch(at now: UInt64) -> UInt64 {
    if now >= searchTime {
      searchInterval = min(max(2 * searchInterval, subject.threshold), Self.longestSearchInterval)
      searchTime = now + searchInterval
    }
    return searchTime
  }

  /// Ends the search for another server of a loop that turns by itself, and never rests.
  private func endSearchIfTurning(_ word: Pulse.Word, at now: UInt64) {
    guard word != seen, subject.heartbeat?.mayBegin == true else { return }
    let since = turningSince ?? now
    turningSince = since
    if now - since >= Self.thresholdsOfSearch * subject.threshold { giveUpSearch() }
  }

  /// Ends the search for another server of a loop that has turned by itself, and rests.
  func giveUpSearch() { if subject.pulse.word.raw != 0 { subject.heartbeat?.giveUpSearch() } }

  /// Whether the loop has made a transition since the last look.
  var hasMoved: Bool { !isSuspended && subject.pulse.word != seen }

  /// Whether the loop is not to be watched for now.
  var isSuspended: Bool { subject.suspension.isActive && episode == nil }

  /// How long ago the turn began that is under way, or the loop was resumed; 0 if none is.
  func age(at now: UInt64) -> UInt64 {
    let word = subject.pulse.word
    // An overlooked turn says nothing of when the watchdog was to be awake.
    guard word.phase != .idle, word != overlooked else { return 0 }
    let since = max(clock.time(of: word, now: now), subject.suspension.resumedAt)
    return now > since ? now - since : 0
  }

  /// Whether no turn has lasted for the threshold, as far as turns are watched.
  ///
  /// A loop that waits, never turned, is paused or turns in a run that is not seen is healthy: nothing speaks against it.
  func isHealthy(at now: UInt64) -> Bool {
    if episode != nil { return subject.pulse.episodeEnd != nil }
    return lateTurn(at: now) == nil
  }

  private func lookAtEpisode(_ now: UInt64) -> Step {
    guard let episode else { return .quiet }
    if let end = subject.pulse.episodeEnd { return .ended(at: end) }
    if subject.heartbeat?.isOver == true { return .ended(at: now) }
    let sample = now >= episode.nextSample
    let ongoing = now >= episode.nextOngoing
    if sample || ongoing { return .due(sample: sample, ongoing: ongoing) }
    return .lookAgain(at: min(episode.nextSample, episode.nextOngoing))
  }

  // MARK: The episode

  /// Begins to follow the late turn.
  ///
  /// False if it ended at this very moment, just in time.
  func beginEpisode(turn: Pulse.Word, id: String, now: UInt64) -> Bool {
    subject.pulse.beginEpisode()
    subject.pulse.fence()
    guard subject.pulse.word == turn else {
      subject.pulse.cancelEpisode()
      return false
    }
    prepareEpisode()
    episode = Episode(
      id: id, turn: turn, start: turnStart, frozen: frozenInTurn, frozenUntil: frozenUntil, now: now,
      threshold: subject.threshold, sampling: subject.sampling)
    return true
  }

  /// Begins to follow a turn that was found to be late earlier, and whose end the pulse has been asked for then.
  func beginEpisode(of held: HeldTurn, id: String, waited: UInt64) {
    prepareEpisode()
    episode = Episode(
      id: id, turn: held.turn, start: held.start, frozen: held.frozen, frozenUntil: frozenUntil, now: held.found,
      threshold: subject.threshold, sampling: subject.sampling)
    episode?.memoryShortage = waited
  }

  private func prepareEpisode() {
    (isTold, actionsDone, detailFile) = (false, 0, nil)
    stolenBefore = StolenTime.total()
  }

  /// Notes what has been stolen since the episode began: once for each sample and at the end, as reading it is not cheap.
  private func noteStolenTime() {
    guard let stolenBefore, let now = StolenTime.total() else { return }
    episode?.stolen = now > stolenBefore ? now - stolenBefore : 0
  }

  /// Forgets what was counted before a turn that was not looked at until it was late.
  func noteUnseenTurn(_ word: Pulse.Word) { if word != seen { baseline = nil } }

  /// The turn under way, when it began and for how long of it the process was frozen; nil unless it is late.
  func lateTurn(at now: UInt64) -> (word: Pulse.Word, start: UInt64, frozen: UInt64)? {
    let word = subject.pulse.word
    guard word.phase != .idle, word != overlooked, !subject.suspension.isActive else { return nil }
    let isSeen = word == seen
    let start = max(isSeen ? seenSince : clock.time(of: word, now: now), subject.suspension.resumedAt)
    let frozen = isSeen ? frozenInTurn : 0
    return now >= start + frozen + subject.threshold ? (word, start, frozen) : nil
  }

  /// Takes the stack of the thread that serves the loop into the capture's buffer; nil if that is another one than before.
  func sight(with capture: ThreadCapture) -> ThreadCapture.Sighting? {
    guard server == .thread(probe.id) else { return nil }
    let sighting = capture.sight(probe, stackEnd: probe.id == subject.threadID ? subject.stackEnd : 0)
    return server == .thread(probe.id) ? sighting : nil
  }

  /// Adds a sample.
  func add(_ sample: Episode.Sample, at time: UInt64) { episode?.add(sample, at: time) }

  /// Adds what was seen of the thread at an earlier moment of the late turn.
  func addSample(of moment: ThreadCapture.Moment, resolver: FrameResolver, at time: UInt64) {
    var sample = Episode.Sample(
      thread: probe.id, activity: moment.activity,
      cause: Verdict.cause(of: moment.activity, usage: change(at: MonotonicClock.now())), stack: [])
    switch moment.backtrace {
    case .success(let backtrace):
      sample.stack = resolver.resolve(backtrace)
      sample.note(backtrace)
    case .failure(let failure): sample.note(failure)
    }
    if case .blocked(let call) = moment.activity { sample.wait = SystemCall(call).shortText }
    add(sample, at: time)
  }

  /// Takes a sample of the stalled thread and adds it.
  func takeSample(with capture: ThreadCapture, resolver: FrameResolver) {
    guard let turn = episode?.turn else { return }
    noteStolenTime()
    isInUnseenRun = false
    resolver.namesFrames = namesFrames
    let server = meetServer()
    guard case .thread = server else { return addSample(without: server, of: turn, with: capture, resolver: resolver) }
    let (mode, callout) = subject.state()
    let moment = capture.capture(
      probe, stackEnd: probe.id == subject.threadID ? subject.stackEnd : 0,
      isWorker: subject.heartbeat.map { $0.isBeating && $0.pool != nil } ?? false)
    var chain = WaitChain(of: probe, in: moment, with: subject.captureThreads == .none ? nil : capture)
    let now = MonotonicClock.now()
    let callouts = callouts(at: now)
    var sample = Episode.Sample(
      thread: probe.id, activity: moment.activity, cause: Verdict.cause(of: moment.activity, usage: change(at: now)),
      stack: [],
      mode: mode, callout: callout)
    // What was read after the loop went on belongs to another moment.
    guard subject.pulse.word == turn, subject.pulse.episodeEnd == nil else {
      if episode?.sampleCount == 0 {
        episode?.add(Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .turnEnded), at: now)
      }
      return
    }
    // The same thread before and after, and work for it all the time: it is that work's stack.
    guard self.server == server else {
      episode?.add(Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .serverChanged), at: now)
      return
    }
    resolver.beginReport(isFirst: episode?.sampleCount == 0)
    switch moment.backtrace {
    case .success(let backtrace):
      sample.stack = resolver.resolve(backtrace)
      isInUnseenRun = subject.isInUnseenRun(resolver.runLoopFrames(of: sample.stack))
      if isInUnseenRun { return }
      sample.note(backtrace)
    case .failure(let failure): sample.note(failure)
    }
    chain.resolve(stack: sample.stack, with: resolver)
    (sample.wait, sample.lockHolder) = (chain.wait, chain.holder)
    (sample.threads, sample.deadlock) = (chain.threads, chain.deadlock)
    // After the new sample's own names: what is left of the time is for those that were left without.
    episode?.completeNames(resolver.complete)
    sweep(into: &sample, with: capture, resolver: resolver)
    episode?.add(sample, at: now, callouts: callouts)
  }

  /// What the loop has called in the late turn.
  private func callouts(at time: UInt64) -> CalloutTimes? {
    guard let episode, let callouts = subject.pulse.callouts(of: episode.turn) else { return nil }
    return clock.times(of: callouts, now: time)
  }

  /// Takes a few more samples of a computation, right after the first.
  ///
  /// A computation is known by what most of its samples have in common, and its beginning, and one that is over soon, are to be known by the same as
  /// the whole. Only of a thread that has hardly waited in this turn; for `budget` nanoseconds and a threshold at most, and only until the turn ends.
  func takeFollowUpSamples(
    with capture: ThreadCapture, resolver: FrameResolver, budget: UInt64, willBegin: () -> Void
  ) {
    guard let episode, canFollowUp(episode) else { return }
    willBegin()
    let (turn, server, pulse) = (episode.turn, server, subject.pulse)
    var taken = 0
    capture.follow(
      probe, until: MonotonicClock.now() + min(budget, subject.threshold),
      isOver: { pulse.word != turn || pulse.episodeEnd != nil }
    ) { backtrace in
      let now = MonotonicClock.now()
      let (mode, callout) = subject.state()
      // What was taken after the loop went on belongs to another moment.
      guard pulse.word == turn, pulse.episodeEnd == nil, self.server == server else { return false }
      let stack = resolver.resolve(backtrace)
      if subject.isInUnseenRun(resolver.runLoopFrames(of: stack)) { return false }
      var sample = Episode.Sample(
        thread: probe.id, activity: .running, cause: Verdict.cause(of: .running, usage: change(at: now)), stack: stack,
        mode: mode, callout: callout)
      sample.note(backtrace)
      let callouts = callouts(at: now)
      self.episode?.add(sample, at: now, isPlanned: false, callouts: callouts)
      taken += 1
      return taken < Self.followUps
    }
  }

  private func canFollowUp(_ episode: Episode) -> Bool {
    guard episode.sampleCount == 1, subject.sampling <= Self.longestSamplingForFollowUps,
      subject.heartbeat.map({ $0.isBeating && $0.pool != nil }) != true, let sample = episode.heaviest,
      sample.activity == .running, sample.thread == probe.id, !sample.stack.isEmpty,
      server == .thread(probe.id), let change = change(at: MonotonicClock.now())
    else { return false }
    // The kernel's numbers may be a tick old.
    return change.cpu + change.runDelay + change.observed / 16 + 5_000_000 >= change.observed
  }

  /// Adds that no thread was met, and why.
  private func addSample(
    without server: LoopServer, of turn: Pulse.Word, with capture: ThreadCapture, resolver: FrameResolver
  ) {
    var sample = Episode.Sample(activity: .unknown, cause: .unknown, stack: [], failure: .unknownServer)
    let pool = subject.heartbeat?.pool
    if server == .nobody, let pool {
      sample.cause = .starved
      sample.wait = "no thread of \(pool.name) has taken it"
      sample.failure = .noServer
    }
    resolver.beginReport(isFirst: episode?.sampleCount == 0)
    if server == .nobody, let pool, subject.captureThreads == .lockHolder, episode?.isSweepDue == true {
      // What keeps the pool's threads from taking it.
      sweep(into: &sample, runningOnly: false, with: capture, resolver: resolver) { thread in
        var judged = thread
        judged.stack = resolver.libraryFrames(of: thread.stack)
        return pool.owns(judged)
      }
    }
    sweep(into: &sample, with: capture, resolver: resolver)
    // A thread may have come in the meantime.
    guard subject.pulse.word == turn, subject.pulse.episodeEnd == nil, self.server == server else {
      sample.cause = .unknown
      sample.wait = nil
      sample.failure = subject.pulse.word == turn ? .serverChanged : .turnEnded
      if episode?.sampleCount == 0 { episode?.add(sample, at: MonotonicClock.now()) }
      return
    }
    episode?.add(sample, at: MonotonicClock.now())
  }

  /// The thread that serves the loop at this moment.
  private var server: LoopServer {
    guard let heartbeat = subject.heartbeat, heartbeat.isBeating else { return .thread(subject.threadID) }
    return heartbeat.server
  }

  /// Goes over to the thread that serves the loop now.
  private func meetServer() -> LoopServer {
    let server = server
    if case .thread(let id) = server, id != probe.id {
      probe = ThreadProbe(thread: id)
      baseline = usage(at: MonotonicClock.now())
    }
    return server
  }

  /// Completes what the last report says: names for which there was no time before, and stolen time.
  func completeEpisode(with resolver: FrameResolver) {
    noteStolenTime()
    let end = subject.pulse.episodeEnd
    let now = end ?? MonotonicClock.now()
    let callouts = callouts(at: now)
    episode?.note(callouts, at: now, isOver: end != nil)
    resolver.namesFrames = namesFrames
    resolver.beginReport(isFirst: false)
    episode?.completeNames(resolver.complete, isLast: true)
  }

  private func sweep(into sample: inout Episode.Sample, with capture: ThreadCapture, resolver: FrameResolver) {
    guard subject.captureThreads == .running || subject.captureThreads == .all, episode?.isSweepDue == true else {
      return
    }
    sweep(
      into: &sample, runningOnly: subject.captureThreads == .running, with: capture, resolver: resolver
    ) { _ in true }
  }

  private func sweep(
    into sample: inout Episode.Sample, runningOnly: Bool, with capture: ThreadCapture, resolver: FrameResolver,
    isWanted: (Report.OtherThread) -> Bool
  ) {
    let sweep = ThreadSweep(
      runningOnly: runningOnly, excluding: Set(sample.threads.map(\.id) + (sample.thread.map { [$0] } ?? [])),
      with: capture, deadline: MonotonicClock.now() + Self.sweepBudget)
    let deadline = MonotonicClock.now() + Self.sweepBudget
    sample.threads += sweep.findings.map { Report.OtherThread($0, resolver: resolver, deadline: deadline) }
      .filter(isWanted).sorted { $0.role < $1.role }
    (sample.threadsLeftOut, sample.isSweep) = (sweep.notLookedAt.count, true)
  }

  /// The report of the episode as it stands.
  ///
  /// `end` is the time that its duration runs to.
  func report(
    _ event: Report.Event, end: UInt64, origin: Report.Origin, watchEnded: Bool = false
  ) -> Report? {
    guard let episode else { return nil }
    let sample = episode.heaviest
    var evidence = Verdict.Evidence()
    if let activity = sample?.activity {
      switch activity {
      case .running: evidence.state = "running"
      case .blocked: evidence.state = "blocked"
      case .unknown: break
      }
    }
    if sample?.cause == episode.cause {
      evidence.wait = sample?.wait
      evidence.lockHolder = sample?.lockHolder
      evidence.deadlock = sample?.deadlock ?? []
    }
    evidence.frozenNanoseconds = episode.frozen
    evidence.memoryShortage = episode.memoryShortage
    evidence.stolen = episode.stolen
    evidence.watchEnded = watchEnded
    evidence.callouts = episode.callouts
    evidence.samplesDisagree = sample?.failure == .noCommonFunction
    // Of the thread whose stack is shown, or of none.
    if sample == nil || sample?.thread == probe.id { evidence.usage = change(at: MonotonicClock.now()) }
    var cause = episode.cause
    // A fault is counted as read from disk when it is over: what was not known at the sample is known now.
    if cause == .unknown, case .blocked(let call) = sample?.activity, call.number < 0 {
      cause = Verdict.cause(of: .blocked(call), usage: evidence.usage)
    }
    // A sample knows the time up to it alone; the whole stall's says more.
    if cause.isReady, sample?.failure != .noProcessor, let judged = Verdict.ready(evidence.usage) { cause = judged }
    if sample?.failure == .shortCallouts || sample?.failure == .noCommonFunction {
      // Many short pieces of work: late as a whole for want of a processor, or nothing that can be named.
      let judged = Verdict.ready(evidence.usage)
      cause = judged.map { $0 == .starved || $0 == .throttled ? $0 : .unknown } ?? .unknown
    }
    let stack = sample?.stack ?? []
    let isRunning = if case .running = sample?.activity { true } else { false }
    var report = Report(
      time: .now(), event: event, stallID: episode.id, sequence: 0, thresholdNanoseconds: subject.threshold,
      durationNanoseconds: episode.duration(at: end), verdict: Verdict(cause: cause, evidence: evidence),
      culprit: Culprit.frame(of: stack),
      fingerprint: Culprit.fingerprint(of: stack, common: isRunning ? episode.tree.commonFrame : nil),
      samples: episode.sampleCount,
      loop: Report.LoopState(
        name: subject.name, kind: subject.kind(), mode: sample?.mode, phase: episode.turn.phase.reported,
        callout: sample?.callout),
      threadID: sample?.thread, threadName: sample?.thread.flatMap { ThreadProbe.name(thread: $0) }, origin: origin,
      stack: stack,
      captureMethod: sample?.method, isApproximate: sample?.isApproximate ?? false,
      isTruncated: sample?.isTruncated ?? false,
      captureFailure: sample?.failure, threads: sample?.threads ?? [], threadsOmitted: sample?.threadsLeftOut ?? 0)
    if event == .ended { report.path = episode.tree.heaviestPath }
    report.places = episode.placesToName(of: event, isRunning: isRunning, isNamed: namesFrames)
    report.isNamed = namesFrames
    report.repeatKey = Culprit.repeatKey(of: stack)
    report.detailFile = detailFile
    return report
  }

  /// The report that the whole process stood still.
  ///
  /// It blames no function: the stack at such a moment says where the loop was met, and not why.
  func freezeReport(lasting frozen: UInt64, id: String, origin: Report.Origin) -> Report {
    var evidence = Verdict.Evidence()
    evidence.frozenNanoseconds = frozen
    return Report(
      time: .now(), event: .ended, stallID: id, sequence: 0, thresholdNanoseconds: subject.threshold,
      durationNanoseconds: frozen, verdict: Verdict(cause: .stopped, evidence: evidence), samples: 0,
      loop: Report.LoopState(
        name: subject.name, kind: subject.kind(), mode: nil, phase: subject.pulse.word.phase.reported, callout: nil),
      threadID: subject.threadID, threadName: ThreadProbe.name(thread: subject.threadID), origin: origin, stack: [])
  }

  /// Plans the next `stall.ongoing`.
  func didReportOngoing(at time: UInt64) { episode?.didReportOngoing(at: time) }

  /// Overlooks the turn from now on: the loop turns in a run that is not seen, and nobody can say how well.
  func overlookTurn() {
    overlooked = episode?.turn
    if !hasSaidUnseen {
      Diagnostics.say(
        "the \(subject.name) loop runs in a private mode, which is not watched; CFRunLoopAddCommonMode would let it be")
    }
    hasSaidUnseen = true
    endEpisode()
  }

  /// Stops following the stall.
  func endEpisode() {
    subject.pulse.cancelEpisode()
    episode = nil
    if let plan { tune(to: plan) }
  }

  /// Goes over to what is in force now; a stall under way keeps what it was found by.
  func tune(to plan: WatchPlan) {
    guard episode == nil else { return self.plan = plan }
    self.plan = nil
    if !subject.hasOwnThreshold { subject.threshold = plan.threshold }
    subject.captureThreads = plan.captureThreads
    subject.sampling = plan.sampling
    namesFrames = plan.namesFrames
  }

  /// Whether a stall is under way.
  var isStalled: Bool { episode != nil || held != nil }

  /// The late turn of the stall that is under way.
  var stalledTurn: Pulse.Word? { episode?.turn }

  // MARK: What the kernel counts

  private func usage(at time: UInt64) -> ThreadUsage? {
    ThreadUsage(probe, throttle: throttle, pressure: pressure, at: time)
  }

  private func change(at time: UInt64) -> ResourceUsage? {
    guard let baseline, let usage = usage(at: time) else { return nil }
    return usage.change(since: baseline)
  }
}
