import CLinux
import Glibc
import Synchronization

/// The one thread that watches all loops of a process.
///
/// It parks on the semaphore while nothing moves, and otherwise sleeps until the earliest moment at which a turn could be
/// late. It blocks the host's signals, and takes no lock that the host's code holds
/// for longer than a registration.
final class Watchdog: Sendable {
  /// When a destination that takes no lines is tried again: at first, and at most, in nanoseconds.
  private static let retryIntervals: ClosedRange<UInt64> = 200_000_000...10_000_000_000

  let semaphore = WatchdogSemaphore()
  /// Whether the kernel lets the watchdog fence for the loops.
  let hasBarrier: Bool
  /// Whether pulses are stamped with the processor's counter.
  let countsTicks = PulseClock.countsTicks()

  let origin: StallReport.Origin
  private let isStopping = Atomic<Bool>(false)
  private let wakeUps = Atomic<UInt64>(0)
  // Host threads hold it for an append; the watchdog only tries it.
  private let changes = Mutex<[Change]>([])
  private let subjects = Mutex<[WatchedLoop.Subject]>([])
  private let hasChanges = Atomic<Bool>(false)
  private let thread = Mutex<pthread_t?>(nil)

  /// What is to become of the list of loops, in the order in which it was asked for.
  private enum Change {
    case watch(WatchedLoop.Subject)
    case forget(Pulse)
  }

  /// Where the lines go.
  ///
  /// Handed to the thread when it starts.
  private struct Outfit: @unchecked Sendable {  // Made by the starter, used by the watchdog's thread alone.
    var watchdog: Watchdog
    var sink: any ReportSink
    var capture: ThreadCapture
    var resolver: FrameResolver
    var recorder: FatalRecorder?
    var publisher: ReportPublisher
    var actions: ActionPlan
    var serviceManager: ServiceManagerWatchdog?
    var tunings: TuningBox
    var configuration: StallMonitorConfiguration
    var courier: TelemetryCourier?
    var recovery: RecoveryPage?
  }

  init(origin: StallReport.Origin) {
    self.origin = origin
    hasBarrier = clinux_barrier_register()
  }

  /// How often the thread has woken since it started.
  var wakeUpCount: UInt64 { wakeUps.load(ordering: .relaxed) }

  /// Starts the thread.
  ///
  /// Throws if there is none to be had.
  func start(
    sink: any ReportSink, publisher: ReportPublisher, capture: ThreadCapture, resolver: FrameResolver,
    recorder: FatalRecorder?, configuration: StallMonitorConfiguration = StallMonitorConfiguration(),
    actions: ActionPlan = ActionPlan([]), serviceManager: ServiceManagerWatchdog? = nil,
    tunings: TuningBox = TuningBox(), courier: TelemetryCourier? = nil, recovery: RecoveryPage? = nil
  ) throws(StallMonitorError) {
    let outfit = Outfit(
      watchdog: self, sink: sink, capture: capture, resolver: resolver, recorder: recorder,
      publisher: publisher, actions: actions, serviceManager: serviceManager, tunings: tunings,
      configuration: configuration, courier: courier, recovery: recovery)
    let handle = try OwnThreads.start(name: "stall-watchdog") { outfit.watchdog.run(outfit) }
    thread.withLock { $0 = handle }
  }

  /// Watches a loop from now on.
  func watch(_ subject: WatchedLoop.Subject) {
    subjects.withLock { $0.append(subject) }
    change(.watch(subject))
  }

  /// Watches the loop of this pulse no longer.
  ///
  /// A stall of it that lasts is told as ended.
  func forget(_ pulse: Pulse) {
    subjects.withLock { $0.removeAll { $0.pulse === pulse } }
    change(.forget(pulse))
  }

  /// The loops that are watched, in the order in which they came.
  var watchedSubjects: [WatchedLoop.Subject] { subjects.withLock { $0 } }

  private func change(_ change: Change) {
    changes.withLock { $0.append(change) }
    hasChanges.store(true, ordering: .releasing)
    semaphore.post()
  }

  /// Stops the thread, and waits until it has written what it can.
  ///
  /// Idempotent. On the watchdog itself, from an action, it waits for nothing.
  func stop() {
    let handle = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    // In the child of a fork there is no such thread.
    guard let handle, getpid() == origin.processID else { return }
    isStopping.store(true, ordering: .releasing)
    semaphore.post()
    if pthread_equal(handle, pthread_self()) != 0 {
      pthread_detach(handle)
    } else {
      pthread_join(handle, nil)
    }
  }

  // MARK: The thread

  private func run(_ outfit: Outfit) {
    clinux_set_timer_slack(1)
    outfit.resolver.prepareThread()
    var loops: [WatchedLoop] = []
    let round = Round(watchdog: self, outfit: outfit)
    // When the thread should next be awake; nil after it was woken by a post.
    var planned: UInt64?
    var frozen: UInt64 = 0
    var retry = Self.retryIntervals.lowerBound
    var freezes = FreezeDetector()
    let clock = PulseClock(countingTicks: countsTicks)
    var serviceManager = outfit.serviceManager
    outfit.recorder?.tellEarlier(to: outfit.sink)
    while !isStopping.load(ordering: .acquiring) {
      clock.observe()
      makeChanges(to: &loops, clock: clock, round: round)
      retune(&loops, round)
      let now = MonotonicClock.now()
      if let planned, now > planned { frozen = freezes.frozen(lateness: now - planned) }
      planned = nil
      round.tellFreeze(frozen, of: loops)
      // Apart from the rest: while no loop moves, the thread parks, and any of them wakes it.
      var nextLook: UInt64?
      var quiet: [WatchedLoop] = []
      round.followUpBudget = WatchedLoop.followUpTime
      for loop in loops {
        if let time = round.follow(loop, frozen: frozen) {
          nextLook = min(nextLook ?? .max, time)
        } else {
          quiet.append(loop)
        }
      }
      frozen = 0
      outfit.courier?.look(at: loops, now: now)
      var next: UInt64?
      if let time = serviceManager?.tell(isHealthy: isHealthy(loops), at: MonotonicClock.now()) { next = time }
      if let summary = outfit.publisher.summarize() { next = min(next ?? .max, summary) }
      if outfit.sink.wantsFlush { outfit.sink.flush() }
      outfit.recorder?.tellEarlier(to: outfit.sink)
      if outfit.sink.wantsFlush {
        next = min(next ?? .max, now + retry)
        retry = min(2 * retry, Self.retryIntervals.upperBound)
      } else {
        retry = Self.retryIntervals.lowerBound
      }
      freezes.willWait()
      // Whatever the watchdog's own work took is nobody's freeze: lateness counts from the beginning of the wait.
      let waitBegan = MonotonicClock.now()
      if let nextLook {
        let deadline = min(nextLook, next ?? .max)
        // The others have a time to be looked at.
        if !wait(until: deadline, orMoveOf: quiet) { planned = max(deadline, waitBegan) }
      } else if let age = park(loops, clock: clock, since: waitBegan, until: next) {
        frozen = freezes.frozen(lateness: age)
      } else if let next {
        planned = max(next, waitBegan)
      }
      wakeUps.add(1, ordering: .relaxed)
    }
    serviceManager?.tellLast(isHealthy: isHealthy(loops))
    round.finish(loops)
    outfit.courier?.look(at: [], now: MonotonicClock.now())
    _ = outfit.publisher.summarize(closing: true)
    outfit.sink.flush()
    outfit.recorder?.tellEarlier(to: outfit.sink)
    outfit.sink.close()
    outfit.recorder?.finish(outfit.sink)
  }

  private func makeChanges(to loops: inout [WatchedLoop], clock: PulseClock, round: Round) {
    guard hasChanges.exchange(false, ordering: .acquiring) else { return }
    let new = changes.withLockIfAvailable { changes in
      defer { changes = [] }
      return changes
    }
    guard let new else { return hasChanges.store(true, ordering: .releasing) }
    for change in new {
      switch change {
      case .watch(let subject):
        let loop = WatchedLoop(subject, clock: clock)
        loop.tune(to: round.plan)
        loops.append(loop)
      case .forget(let pulse):
        round.finish(loops.filter { $0.subject.pulse === pulse })
        loops.removeAll { $0.subject.pulse === pulse }
      }
    }
  }

  /// Goes over to what an agent has said.
  private func retune(_ loops: inout [WatchedLoop], _ round: Round) {
    guard let tuning = round.outfit.tunings.take() else { return }
    round.plan = WatchPlan(round.outfit.configuration, tuning, sinkNames: round.outfit.sink.namesFrames)
    round.outfit.publisher.ledger.retune(window: round.plan.repeatWindow, budget: round.plan.budget)
    for loop in loops { loop.tune(to: round.plan) }
  }

  /// Waits for a post, or for one of these loops to move, of which nothing was to be watched, or until `deadline`.
  ///
  /// False if the deadline came first.
  private func wait(until deadline: UInt64?, orMoveOf quiet: [WatchedLoop]) -> Bool {
    let quiet = quiet.filter { !$0.isSuspended }
    for loop in quiet { loop.subject.pulse.requestWake() }
    quiet.first?.subject.pulse.fence()
    defer { for loop in quiet { loop.subject.pulse.cancelWake() } }
    // Against the last look, and not against now: a turn that began in between would never be seen.
    if quiet.contains(where: \.hasMoved) { return true }
    if let deadline { return semaphore.wait(until: deadline) }
    semaphore.wait()
    return true
  }

  private func isHealthy(_ loops: [WatchedLoop]) -> Bool {
    let now = MonotonicClock.now()
    return loops.allSatisfy { $0.isHealthy(at: now) }
  }

  /// Waits for any loop to move, or until `deadline`.
  ///
  /// Returns how long ago a loop moved, of the time since the wait began; nil if the deadline came first.
  private func park(_ loops: [WatchedLoop], clock: PulseClock, since waitBegan: UInt64, until deadline: UInt64?)
    -> UInt64?
  {
    guard wait(until: deadline, orMoveOf: loops) else { return nil }
    // The loop that moved posted as its turn began: whatever lies between there and here, it was not asleep in it.
    clock.observe()
    let now = MonotonicClock.now()
    return min(loops.map { $0.age(at: now) }.max() ?? 0, now - waitBegan)
  }

  /// What the thread does for each loop that needs it.
  private final class Round {
    let watchdog: Watchdog
    let outfit: Outfit
    /// What is in force.
    var plan: WatchPlan
    /// For how long computations that have become late may be looked at once more before the thread waits again.
    var followUpBudget: UInt64 = 0

    init(watchdog: Watchdog, outfit: Outfit) {
      self.watchdog = watchdog
      self.outfit = outfit
      plan = WatchPlan(outfit.configuration, Tuning(), sinkNames: outfit.sink.namesFrames)
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
        switch step {
        case .quiet: return nil
        case .lookAgain(let time):
          act(on: loop, at: now)
          return min(time, nextAction(for: loop) ?? .max)
        case .late(let turn):
          guard loop.beginEpisode(turn: turn, id: ReportPublisher.makeIdentifier(), now: now) else { continue }
          beginRecovery(of: loop)
          outfit.capture.flush()
          outfit.resolver.flush()
          loop.takeSample(with: outfit.capture, resolver: outfit.resolver)
          if loop.isInUnseenRun {
            loop.overlookTurn()
            continue
          }
          let found = Timestamp.now()
          if let report = loop.report(.started, end: now, origin: watchdog.origin),
            followUpBudget > 0, !outfit.publisher.ledger.knows(report, at: now)
          {
            let begin = MonotonicClock.now()
            // With a record first, so that it is told if the process ends meanwhile.
            loop.takeFollowUpSamples(with: outfit.capture, resolver: outfit.resolver, budget: followUpBudget) {
              keepRecord(of: loop)
            }
            followUpBudget -= min(followUpBudget, MonotonicClock.now() - begin)
          }
          if var report = loop.report(.started, end: now, origin: watchdog.origin) {
            report.time = found
            loop.isTold = outfit.publisher.begin(report)
          }
          outfit.resolver.trim()
          keepRecord(of: loop)
          act(on: loop, as: .started, at: now)
        case .due(let sample, let ongoing):
          if sample || ongoing { loop.takeSample(with: outfit.capture, resolver: outfit.resolver) }
          if loop.isInUnseenRun {
            finish(loop, at: now, isOverlooked: true)
            continue
          }
          if ongoing {
            // It may have ended while it was sampled; then its end is told, and not that it goes on.
            if loop.subject.pulse.episodeEnd != nil { continue }
            if let report = loop.report(.ongoing, end: now, origin: watchdog.origin) {
              loop.isTold = outfit.publisher.goOn(report, isTold: loop.isTold)
            }
            loop.didReportOngoing(at: now)
          }
          outfit.resolver.trim()
          keepRecord(of: loop)
          act(on: loop, at: now)
        case .ended(let end):
          finish(loop, at: end)
        }
      }
      return MonotonicClock.now()
    }

    /// Closes what is open when the watch ends in mid-stall.
    func finish(_ loops: [WatchedLoop]) {
      for loop in loops where loop.isStalled {
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
      loop.completeNames(with: outfit.resolver)
      let report = loop.report(.ended, end: end, origin: watchdog.origin, watchEnded: watchEnded)
      if let report, let episode = loop.episode { outfit.publisher.end(report, of: episode, isTold: loop.isTold) }
      outfit.resolver.trim()
      if !watchEnded, !isOverlooked { act(on: loop, as: .ended, at: end) }
      if isOverlooked { loop.overlookTurn() } else { loop.endEpisode() }
    }

    /// Tells that the process stood still, if any loop would have counted as stalled for so long.
    func tellFreeze(_ frozen: UInt64, of loops: [WatchedLoop]) {
      guard let loop = loops.first(where: { frozen >= max($0.subject.threshold, FreezeDetector.worthTelling) }) else {
        return
      }
      outfit.publisher.tellFreeze(
        loop.freezeReport(lasting: frozen, id: ReportPublisher.makeIdentifier(), origin: watchdog.origin))
    }

    /// Has the loop note for the agent when the stall is over; before the agent hears of it.
    private func beginRecovery(of loop: WatchedLoop) {
      guard let recovery = outfit.recovery, let episode = loop.episode else { return }
      let pulse = loop.subject.pulse
      guard let place = pulse.recovery else { return recovery.setIncomplete() }
      place.begin(episode.id, turn: episode.turn.raw, since: episode.start + episode.frozen) { pulse.episodeEnd }
    }

    /// What is to be told of the stall if the process ends now.
    private func keepRecord(of loop: WatchedLoop, aborting: Bool = false) {
      let pulse = loop.subject.pulse
      if let episode = loop.episode { pulse.recovery?.update(since: episode.start + episode.frozen) }
      guard let recorder = outfit.recorder, let record = pulse.record, let turn = loop.stalledTurn,
        var report = loop.report(.fatal, end: MonotonicClock.now(), origin: watchdog.origin), pulse.episodeEnd == nil
      else { return }
      report.sequence = outfit.publisher.sequence + 1
      report.isAborting = aborting
      recorder.keep(report, in: record, turn: turn) { pulse.episodeEnd != nil }
    }

    // MARK: Actions

    /// When the next action is due of the stall under way.
    private func nextAction(for loop: WatchedLoop) -> UInt64? {
      guard let episode = loop.episode, let level = outfit.actions.nextLevel(done: loop.actionsDone) else { return nil }
      return episode.start + episode.frozen + level
    }

    /// Does what the stall under way has lasted long enough for; after what is to be written of it.
    private func act(on loop: WatchedLoop, as event: StallReport.Event = .ongoing, at time: UInt64) {
      guard let episode = loop.episode else { return }
      let due = outfit.actions.due(after: episode.duration(at: time), done: loop.actionsDone)
      guard !due.isEmpty else { return }
      // It may have ended just now; then what is left is done when its end has been told.
      if event != .ended, loop.subject.pulse.episodeEnd != nil { return }
      loop.actionsDone += due.count
      guard var report = loop.report(event, end: time, origin: watchdog.origin) else { return }
      if due.contains(.writeDetailFile) {
        loop.detailFile = outfit.publisher.writeDetail(report, of: episode)
        report.detailFile = loop.detailFile
        if event != .ended { keepRecord(of: loop) }
      }
      report.sequence = outfit.publisher.sequence + (loop.isTold ? 0 : 1)
      for case .call(let handler) in due { handler.body(StallNotice(report, isTold: loop.isTold)) }
      guard due.contains(.abort), loop.subject.pulse.episodeEnd == nil else { return }
      guard var last = loop.report(.ongoing, end: MonotonicClock.now(), origin: watchdog.origin) else { return }
      last.isAborting = true
      outfit.publisher.tellLast(last)
      keepRecord(of: loop, aborting: true)
      ProcessAbort.happen(for: loop.subject.threadID)
    }
  }
}
