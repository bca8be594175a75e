import CLinux
import Glibc
import StallCapture
import Synchronization

/// The one thread that watches all loops of a process.
///
/// It parks on the semaphore while nothing moves, and otherwise sleeps until the earliest moment at which a turn could be
/// late. It blocks the host's signals, and takes no lock that the host's code holds
/// for longer than a registration.
final class Watchdog: Sendable {
  /// How long the thread waits for memory when it is stopped, in nanoseconds.
  private static let longestFarewell: UInt64 = 500_000_000
  /// How long the thread waits at most while a loop is stalled, in nanoseconds: a freeze is known as precisely as this.
  private static let longestWaitInStall: UInt64 = 250_000_000

  let semaphore = WatchdogSemaphore()
  /// Whether the kernel lets the watchdog fence for the loops.
  let hasBarrier: Bool
  /// Whether pulses are stamped with the processor's counter.
  let countsTicks = PulseClock.countsTicks()

  private let processID = getpid()
  private let isStopping = Atomic<Bool>(false)
  private let wakeUps = Atomic<UInt64>(0)
  // Host threads hold it for an append; the watchdog only tries it.
  private let changes = Mutex<[Change]>([])
  private let subjects = Mutex<[WatchedLoop.Subject]>([])
  // What the thread no longer uses, and must not release: objects of the service's end with it, and may close descriptors of its table.
  private let retired = Mutex<[WatchedLoop.Subject]>([])
  private let hasChanges = Atomic<Bool>(false)
  private let thread = Mutex<pthread_t?>(nil)

  /// What is to become of the list of loops, in the order in which it was asked for.
  private enum Change {
    case watch(WatchedLoop.Subject)
    case forget(Pulse)
  }

  init() { hasBarrier = clinux_barrier_register() }

  /// How often the thread has woken since it started.
  var wakeUpCount: UInt64 { wakeUps.load(ordering: .relaxed) }

  /// Starts the thread, with a descriptor table of its own, and waits until it has what it needs.
  ///
  /// - Parameters:
  ///   - kept: The descriptor of the service's that the thread keeps, 0 to 2; nil for none.
  ///   - makeContext: Makes what the thread works with. Called on it, so that its files are opened there.
  /// - Throws: What `makeContext` throws, or that there is no thread to be had.
  func start(
    keeping kept: Int32?, _ makeContext: @escaping @Sendable () throws(StallMonitorError) -> WatchdogContext
  ) throws(StallMonitorError) {
    let outcome = StartOutcome()
    let handle = try OwnThreads.startApart(name: "stall-watchdog", keeping: kept) { [self] in
      do throws(StallMonitorError) {
        let context = try makeContext()
        outcome.report(nil)
        run(context)
      } catch {
        outcome.report(error)
      }
    }
    if let error = outcome.wait() {
      pthread_join(handle, nil)
      throw error
    }
    thread.withLock { $0 = handle }
  }

  /// How the start of the thread went.
  private final class StartOutcome: Sendable {
    private let error = Mutex<StallMonitorError?>(nil)
    private let isKnown = WatchdogSemaphore()

    func report(_ error: StallMonitorError?) {
      self.error.withLock { $0 = error }
      isKnown.post()
    }

    func wait() -> StallMonitorError? {
      isKnown.wait()
      return error.withLock { $0 }
    }
  }

  /// Watches a loop from now on.
  func watch(_ subject: WatchedLoop.Subject) {
    releaseRetired()
    subjects.withLock { $0.append(subject) }
    change(.watch(subject))
  }

  /// Watches the loop of this pulse no longer.
  ///
  /// A stall of it that lasts is told as ended.
  func forget(_ pulse: Pulse) {
    // Out of the lock, and on the thread of the service's that calls: the last reference may be here.
    let forgotten = subjects.withLock { subjects in
      let forgotten = subjects.filter { $0.pulse === pulse }
      subjects.removeAll { $0.pulse === pulse }
      return forgotten
    }
    if OwnThreads.isApart { retired.withLock { $0 += forgotten } }
    releaseRetired()
    change(.forget(pulse))
  }

  /// The loops that are watched, in the order in which they came.
  var watchedSubjects: [WatchedLoop.Subject] { subjects.withLock { $0 } }

  /// Releases what the thread no longer uses; does nothing on a thread with a descriptor table of its own.
  private func releaseRetired() {
    guard !OwnThreads.isApart else { return }
    let old = retired.withLock { retired in
      defer { retired = [] }
      return retired
    }
    withExtendedLifetime(old) {}
  }

  /// Keeps the loops' subjects for a thread of the service's.
  ///
  /// Returns what can ask for their release on such a thread; do it when the watchdog holds none of them any more.
  private func retire(_ loops: [WatchedLoop]) -> [BeatPoster] {
    retired.withLock { $0 += loops.map(\.subject) }
    return loops.compactMap { $0.subject.heartbeat?.poster }
  }

  private func change(_ change: Change) {
    changes.withLock { $0.append(change) }
    hasChanges.store(true, ordering: .releasing)
    semaphore.post()
  }

  /// Stops the thread, and waits until it has written what it can.
  ///
  /// Idempotent. Takes two seconds at most, whatever becomes of the lines.
  func stop() {
    let handle = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    // In the child of a fork there is no such thread.
    guard let handle, getpid() == processID else { return }
    isStopping.store(true, ordering: .releasing)
    semaphore.post()
    pthread_join(handle, nil)
    releaseRetired()
  }

  // MARK: The thread

  private func run(_ context: WatchdogContext) {
    clinux_set_timer_slack(1)
    clinux_request_short_slice()
    context.resolver.prepareThread()
    var loops: [WatchedLoop] = []
    defer { _ = retire(loops) }
    let round = WatchdogRound(context: context)
    // When the last wait began, and when the thread should be awake after it; nil if any post may end it.
    var waitBegan: UInt64 = 0
    var planned: UInt64?
    var freeze: FreezeDetector.Freeze?
    var freezes = FreezeDetector()
    let clock = PulseClock(countingTicks: countsTicks)
    var serviceManager = context.serviceManager
    context.recorder?.tellEarlier(to: context.sink)
    while !isStopping.load(ordering: .acquiring) {
      clock.observe()
      guard MemoryRoom.isEnough else {
        round.holdLateTurns(of: loops)
        let now = MonotonicClock.now()
        _ = serviceManager?.tell(isHealthy: isHealthy(loops), at: now, mayComplain: false)
        // What the lack of memory makes late is nobody's freeze.
        (planned, freeze) = (nil, nil)
        _ = semaphore.wait(until: now + MemoryRoom.retryInterval)
        continue
      }
      round.beginHeldEpisodes(of: loops)
      for poster in makeChanges(to: &loops, clock: clock, round: round) {
        poster.end { [self] in releaseRetired() }
      }
      retune(loops, round)
      let now = MonotonicClock.now()
      if let planned, now > planned { freeze = freezes.freeze(lateness: now - planned, of: now - waitBegan) }
      planned = nil
      round.tellFreeze(freeze?.atLeast ?? 0, of: loops)
      // Apart from the rest: while no loop moves, the thread parks, and any of them wakes it.
      var nextLook: UInt64?
      var quiet: [WatchedLoop] = []
      round.followUpBudget = WatchedLoop.followUpTime
      for loop in loops {
        if let time = round.follow(loop, frozen: freeze?.atMost ?? 0) {
          nextLook = min(nextLook ?? .max, time)
        } else {
          quiet.append(loop)
          loop.giveUpSearch()
        }
      }
      freeze = nil
      context.courier?.look(at: loops, now: now)
      var next: UInt64?
      if let time = serviceManager?.tell(isHealthy: isHealthy(loops), at: MonotonicClock.now()) { next = time }
      if let summary = context.publisher.summarize() { next = min(next ?? .max, summary) }
      context.recorder?.tellEarlier(to: context.sink)
      freezes.willWait()
      // Whatever the watchdog's own work took is nobody's freeze: lateness counts from the beginning of the wait.
      waitBegan = MonotonicClock.now()
      if let nextLook {
        var deadline = min(nextLook, next ?? .max)
        if loops.contains(where: \.isStalled) { deadline = min(deadline, waitBegan + Self.longestWaitInStall) }
        // The others have a time to be looked at. A post may come at the end of a freeze, long after the deadline.
        _ = wait(until: deadline, orMoveOf: quiet)
        planned = max(deadline, waitBegan)
      } else if let age = park(loops, clock: clock, since: waitBegan, until: next) {
        freeze = freezes.freeze(lateness: age, of: age)
      } else if let next {
        planned = max(next, waitBegan)
      }
      wakeUps.add(1, ordering: .relaxed)
    }
    // What is open is lost with a process that has no memory to its end.
    guard MemoryRoom.wait(until: MonotonicClock.now() + Self.longestFarewell) else {
      return abandon(loops, context)
    }
    serviceManager?.tellLast(isHealthy: isHealthy(loops))
    round.finish(loops)
    context.courier?.look(at: [], now: MonotonicClock.now())
    _ = context.publisher.summarize(closing: true)
    context.recorder?.tellEarlier(to: context.sink)
    context.sink.close()
    context.recorder?.finish(context.sink)
    context.capture.finishThread()
  }

  /// Ends without a report of what is open; allocates nothing.
  private func abandon(_ loops: [WatchedLoop], _ context: WatchdogContext) {
    for loop in loops where loop.isStalled {
      loop.subject.pulse.record?.end()
      loop.subject.pulse.recovery?.close(at: MonotonicClock.now())
      loop.subject.pulse.cancelEpisode()
    }
    context.sink.close()
    context.capture.finishThread()
  }

  private func makeChanges(to loops: inout [WatchedLoop], clock: PulseClock, round: WatchdogRound)
    -> [BeatPoster]
  {
    guard hasChanges.exchange(false, ordering: .acquiring) else { return [] }
    let new = changes.withLockIfAvailable { changes in
      defer { changes = [] }
      return changes
    }
    guard let new else {
      hasChanges.store(true, ordering: .releasing)
      return []
    }
    var posters: [BeatPoster] = []
    for change in new {
      switch change {
      case .watch(let subject):
        let loop = WatchedLoop(subject, clock: clock)
        loop.tune(to: round.plan)
        loops.append(loop)
      case .forget(let pulse):
        let forgotten = loops.filter { $0.subject.pulse === pulse }
        round.finish(forgotten)
        posters += retire(forgotten)
        loops.removeAll { $0.subject.pulse === pulse }
      }
    }
    return posters
  }

  /// Goes over to what an agent has said.
  private func retune(_ loops: [WatchedLoop], _ round: WatchdogRound) {
    guard let tuning = round.context.tunings.take() else { return }
    let context = round.context
    round.follow(WatchPlan(context.configuration, tuning, sinkNames: context.sink.namesFrames), loops)
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
    // Without an array: the wait may have been long, and there may be no memory by now.
    var age: UInt64 = 0
    for loop in loops { age = max(age, loop.age(at: now)) }
    return min(age, now - waitBegan)
  }
}
