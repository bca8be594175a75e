import CLinux
import Glibc
import StallCapture
import Synchronization

/// What the watchdog's thread does: it checks all loops, and sleeps until the earliest moment at which a turn could be late.
///
/// While no loop moves it parks on the semaphore. Made on that thread and used by it alone, since its files lie in that thread's
/// descriptor table.
final class WatchdogWork {
  /// How long the thread waits for memory when it is stopped, in nanoseconds.
  private static let longestFarewell: UInt64 = 500_000_000
  /// How long the thread waits at most while a loop is stalled, in nanoseconds: a freeze is known as precisely as this.
  private static let longestWaitInStall: UInt64 = 250_000_000

  private let semaphore: WatchdogSemaphore
  private let list: WatchList
  // Made when the work begins: its first rate takes 2 ms.
  private var clock = PulseClock()
  private let countsTicks: Bool
  private let stalls: StallFollower
  private let settings: SettingsFollower
  private var serviceManager: ServiceManagerWatchdog?
  /// Carries messages and numbers to the service's log and metrics.
  private let telemetry: TelemetryCourier?

  private var loops: [WatchedLoop] = []
  private var freezes = FreezeDetector()
  private var freeze: FreezeDetector.Freeze?
  // When the last wait began, and when the thread should be awake after it; nil if any post may end it.
  private var waitBegan: UInt64 = 0
  private var planned: UInt64?

  init(
    of watchdog: Watchdog, stalls: StallFollower, settings: SettingsFollower, serviceManager: ServiceManagerWatchdog?,
    telemetry: TelemetryCourier?
  ) {
    semaphore = watchdog.semaphore
    list = watchdog.list
    countsTicks = watchdog.countsTicks
    self.stalls = stalls
    self.settings = settings
    self.serviceManager = serviceManager
    self.telemetry = telemetry
  }

  /// Whether stalls are recorded for the case that the process ends in one.
  var keepsRecords: Bool { stalls.records.isRecording }

  /// Works until `state` says to stop.
  func run(_ state: WatchdogState) {
    clinux_set_timer_slack(1)
    clinux_request_short_slice(false)
    stalls.sampler.resolver.prepareThread()
    clock = PulseClock(countingTicks: countsTicks)
    defer { _ = list.retire(loops) }
    stalls.records.sendEarlier()
    while !state.isStopping.load(ordering: .acquiring) {
      clock.observe()
      guard AvailableMemory.isEnough else {
        waitForMemory()
        continue
      }
      let (nextCheck, quiet) = checkLoops()
      let next = report()
      wait(nextCheck: nextCheck, next: next, quiet: quiet)
      state.wakeUps.add(1, ordering: .relaxed)
    }
    end()
  }

  /// Notes which loops are late while there is no memory to report that, and waits.
  private func waitForMemory() {
    stalls.deferLateTurns(of: loops)
    let now = MonotonicClock.now()
    _ = serviceManager?.notify(isHealthy: isHealthy, at: now, mayComplain: false)
    // What the lack of memory makes late is nobody's freeze.
    (planned, freeze) = (nil, nil)
    _ = semaphore.wait(until: now + AvailableMemory.retryInterval)
  }

  /// Checks all loops, and does what is due.
  ///
  /// Returns when to check next, and the loops of which nothing is to be watched.
  private func checkLoops() -> (next: UInt64?, quiet: [WatchedLoop]) {
    stalls.beginDeferredEpisodes(of: loops)
    for poster in makeChanges() {
      poster.end { [list] in list.releaseRetired() }
    }
    settings.update(loops, with: stalls)
    let now = MonotonicClock.now()
    if let planned, now > planned { freeze = freezes.freeze(lateness: now - planned, of: now - waitBegan) }
    planned = nil
    if settings.plan.isEnabled { stalls.reportFreeze(freeze?.atLeast ?? 0, of: loops) }
    // Apart from the rest: while no loop moves, the thread parks, and any of them wakes it.
    var next: UInt64?
    var quiet: [WatchedLoop] = []
    stalls.followUpBudget = StallSampler.followUpTime
    for loop in loops {
      if let time = stalls.follow(loop, frozen: freeze?.atMost ?? 0) {
        next = min(next ?? .max, time)
      } else {
        quiet.append(loop)
        loop.giveUpSearch()
      }
    }
    freeze = nil
    telemetry?.observe(loops, now: now)
    return (next, quiet)
  }

  /// Sends what is due beside the loops' stalls; returns when that is next.
  private func report() -> UInt64? {
    var next: UInt64?
    if let time = serviceManager?.notify(isHealthy: isHealthy, at: MonotonicClock.now()) { next = time }
    if let summary = stalls.publisher.summarize() { next = min(next ?? .max, summary) }
    stalls.records.sendEarlier()
    return next
  }

  /// Ends with what is open.
  private func end() {
    // What is open is lost with a process that has no memory to its end.
    guard AvailableMemory.wait(until: MonotonicClock.now() + Self.longestFarewell) else {
      stalls.abandon(loops)
      stalls.records.abandon()
      return stalls.sampler.capture.finishThread()
    }
    serviceManager?.notifyLast(isHealthy: isHealthy)
    stalls.finish(loops)
    telemetry?.observe([], now: MonotonicClock.now())
    _ = stalls.publisher.summarize(closing: true)
    stalls.records.sendEarlier()
    stalls.records.close()
    stalls.sampler.capture.finishThread()
  }

  /// Returns what posts the heartbeats of loops that are watched no longer.
  private func makeChanges() -> [BeatPoster] {
    var posters: [BeatPoster] = []
    for change in list.takeChanges() {
      switch change {
      case .watch(let subject):
        let loop = WatchedLoop(subject, clock: clock)
        loop.tune(to: settings.plan)
        loops.append(loop)
      case .forget(let pulse):
        let forgotten = loops.filter { $0.subject.pulse === pulse }
        stalls.finish(forgotten)
        posters += list.retire(forgotten)
        loops.removeAll { $0.subject.pulse === pulse }
      }
    }
    return posters
  }

  private var isHealthy: Bool {
    let now = MonotonicClock.now()
    return loops.allSatisfy { $0.isHealthy(at: now) }
  }

  // MARK: Waiting

  /// Waits until there is something to do, and plans what a freeze is judged by.
  private func wait(nextCheck: UInt64?, next: UInt64?, quiet: [WatchedLoop]) {
    freezes.willWait()
    // Whatever the watchdog's own work took is nobody's freeze: lateness counts from the beginning of the wait.
    waitBegan = MonotonicClock.now()
    if let nextCheck {
      var deadline = min(nextCheck, next ?? .max)
      if loops.contains(where: \.isStalled) { deadline = min(deadline, waitBegan + Self.longestWaitInStall) }
      // The others have a time to be checked at. A post may come at the end of a freeze, long after the deadline.
      _ = wait(until: deadline, orMoveOf: quiet)
      planned = max(deadline, waitBegan)
    } else if let age = park(until: next) {
      freeze = freezes.freeze(lateness: age, of: age)
    } else if let next {
      planned = max(next, waitBegan)
    }
  }

  /// Waits for a post, or for one of these loops to move, of which nothing was to be watched, or until `deadline`.
  ///
  /// False if the deadline came first.
  private func wait(until deadline: UInt64?, orMoveOf quiet: [WatchedLoop]) -> Bool {
    let quiet = quiet.filter { !$0.isSuspended }
    for loop in quiet { loop.subject.pulse.requestWake() }
    quiet.first?.subject.pulse.fence()
    defer { for loop in quiet { loop.subject.pulse.cancelWake() } }
    // Against the last check, and not against now: a turn that began in between would never be seen.
    if quiet.contains(where: \.hasMoved) { return true }
    if let deadline { return semaphore.wait(until: deadline) }
    semaphore.wait()
    return true
  }

  /// Waits for any loop to move, or until `deadline`.
  ///
  /// Returns how long ago a loop moved, of the time since the wait began; nil if the deadline came first.
  private func park(until deadline: UInt64?) -> UInt64? {
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
