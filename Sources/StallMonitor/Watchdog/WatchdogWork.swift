import CLinux
import PlatformLibc
import StallCapture
import Synchronization

/// What the watchdog's thread does: it checks all loops, and sleeps until the earliest moment at which a turn could be late.
///
/// While no loop moves it parks on the semaphore. Made on that thread and used by it alone, since its files lie in that thread's
/// descriptor table.
final class WatchdogWork {
  /// How long the thread waits for memory when it is stopped, in nanoseconds.
  private static let longestFarewell: UInt64 = 500_000_000

  private let loops: CheckedLoops
  private let waits: WatchdogWait
  private let stalls: StallFollower
  private let settings: SettingsFollower
  private var serviceManager: ServiceManagerWatchdog?
  /// Carries messages and numbers to the service's log and metrics.
  private let telemetry: TelemetryExporter?

  init(
    of watchdog: Watchdog, stalls: StallFollower, settings: SettingsFollower, serviceManager: ServiceManagerWatchdog?,
    telemetry: TelemetryExporter?
  ) {
    // It reads a file when it is first asked.
    _ = AvailableMemory.isEnough
    loops = CheckedLoops(of: watchdog)
    waits = WatchdogWait(on: watchdog.semaphore)
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
    loops.begin()
    defer { loops.end() }
    stalls.records.sendEarlier()
    var profilingSignal = ProfilingSignal()
    while !state.isStopping.load(ordering: .acquiring) {
      profilingSignal.follow()
      loops.clock.observe()
      guard AvailableMemory.isEnoughForACheck, stalls.mayBeginDeferredEpisodes(of: loops.all) else {
        waitForMemory()
        continue
      }
      let (nextCheck, quiet) = checkLoops()
      let next = report()
      waits.wait(for: loops, nextCheck: nextCheck, next: next, quiet: quiet)
      state.wakeUps.add(1, ordering: .relaxed)
    }
    end(state)
  }

  /// Notes which loops are late while there is no memory to report that, and waits.
  private func waitForMemory() {
    stalls.deferLateTurns(of: loops.all)
    let now = MonotonicClock.now()
    _ = serviceManager?.notify(isHealthy: loops.areHealthy, at: now, mayComplain: false)
    waits.waitForMemory(until: now + AvailableMemory.retryInterval)
  }

  /// Checks all loops, and does what is due.
  ///
  /// Returns when to check next, and the loops that need no watch until then.
  private func checkLoops() -> (next: UInt64?, quiet: [WatchedLoop]) {
    stalls.beginDeferredEpisodes(of: loops.all)
    loops.update(plan: settings.plan, stalls: stalls)
    settings.update(loops.all, with: stalls)
    let now = MonotonicClock.now()
    let freeze = waits.takeFreeze()
    if settings.plan.isEnabled { stalls.reportFreeze(freeze?.atLeast ?? 0, of: loops.all) }
    // Apart from the rest: while no loop moves, the thread parks, and any of them wakes it.
    var next: UInt64?
    var quiet: [WatchedLoop] = []
    stalls.followUpBudget = StallSampler.followUpTime
    for loop in loops.all {
      clinux_fork_monitor_thread_passes()
      if let time = stalls.follow(loop, frozen: freeze?.atMost ?? 0) {
        next = min(next ?? .max, time)
      } else {
        quiet.append(loop)
        loop.giveUpSearch()
      }
    }
    telemetry?.observe(loops.all, now: now)
    return (next, quiet)
  }

  /// Sends what is due in addition to the loops' stalls; returns when the next of it is due.
  private func report() -> UInt64? {
    var next: UInt64?
    if let time = serviceManager?.notify(isHealthy: loops.areHealthy, at: MonotonicClock.now()) { next = time }
    if let summary = stalls.publisher.summarize() { next = min(next ?? .max, summary) }
    stalls.records.sendEarlier()
    return next
  }

  /// Ends with what is open.
  private func end(_ state: WatchdogState) {
    // What is open is lost with a process that has no memory to its end.
    guard AvailableMemory.wait(until: MonotonicClock.now() + Self.longestFarewell) else {
      state.abandonedLoops.store(stalls.abandon(loops.all), ordering: .relaxed)
      stalls.records.abandon()
      return stalls.sampler.capture.finishThread()
    }
    serviceManager?.notifyLast(isHealthy: loops.areHealthy)
    stalls.awaitEnds(of: loops.all)
    stalls.finish(loops.all)
    telemetry?.observe([], now: MonotonicClock.now())
    _ = stalls.publisher.summarize(closing: true)
    stalls.records.sendEarlier()
    stalls.records.close()
    stalls.sampler.capture.finishThread()
  }
}
