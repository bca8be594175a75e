import CLinux
import StallDetection
import Synchronization

/// What the watchdog's thread does: it checks all loops, and sleeps until the earliest moment at which a turn could be late.
///
/// While no loop moves it parks on the semaphore. Made on that thread and used by it alone, since its files lie in that thread's
/// descriptor table.
final class WatchdogWork {
  /// How long the thread waits for memory when it is stopped, in nanoseconds.
  private static let longestFarewell: UInt64 = 500_000_000

  /// Whether stalls are recorded for the case that the process ends in one, so that each loop needs memory for it.
  let keepsRecords: Bool

  private let clock: any WatchdogClock
  private let loops: CheckedLoops
  private let waits: WatchdogWait
  private let stalls: StallFollower
  private let settings: SettingsFollower
  private var serviceManager: ServiceManagerWatchdog?
  /// Carries messages and numbers to the service's log and metrics.
  private let telemetry: TelemetryExporter?

  init(
    _ loops: CheckedLoops, clock: any WatchdogClock, freezes: any FreezeCounter, stalls: StallFollower,
    settings: SettingsFollower, serviceManager: ServiceManagerWatchdog?, telemetry: TelemetryExporter?,
    keepsRecords: Bool
  ) {
    self.keepsRecords = keepsRecords
    // It reads a file when it is first asked.
    _ = AvailableMemory.isEnough
    self.loops = loops
    self.clock = clock
    waits = WatchdogWait(by: clock, freezes: freezes)
    self.stalls = stalls
    self.settings = settings
    self.serviceManager = serviceManager
    self.telemetry = telemetry
  }

  /// Works until `state` says to stop.
  func run(_ state: WatchdogState) {
    loops.begin()
    defer { loops.end() }
    while !state.isStopping.load(ordering: .acquiring) {
      loops.pulseClock.observe()
      guard AvailableMemory.isEnoughForACheck, stalls.mayBeginDeferredEpisodes(of: loops.all) else {
        waitForMemory()
        continue
      }
      let (nextCheck, quiet) = checkLoops()
      let next = notifyServiceManager()
      waits.wait(for: loops, nextCheck: nextCheck, next: next, quiet: quiet)
      state.wakeUps.add(1, ordering: .relaxed)
    }
    end(state)
  }

  /// Notes which loops are late while there is no memory to report that, and waits.
  private func waitForMemory() {
    stalls.deferLateTurns(of: loops.all)
    let now = clock.now()
    _ = serviceManager?.notify(at: now.nanoseconds, mayComplain: false) { loops.areHealthy(asksWhy: false) }
    waits.waitForMemory(until: now + AvailableMemory.retryInterval)
  }

  /// Checks all loops, and does what is due.
  ///
  /// Returns when to check next, and the loops that need no watch until then.
  private func checkLoops() -> (next: Instant?, quiet: [WatchedLoop]) {
    stalls.beginDeferredEpisodes(of: loops.all)
    loops.update(plan: settings.plan, stalls: stalls)
    settings.update(loops.all, with: stalls)
    let now = clock.now()
    let freeze = waits.takeFreeze()
    if settings.plan.isEnabled { stalls.reportFreeze(freeze?.atLeast ?? 0, of: loops.all) }
    // Apart from the rest: while no loop moves, the thread parks, and any of them wakes it.
    var next: Instant?
    var quiet: [WatchedLoop] = []
    stalls.followUpBudget = StallSampler.followUpTime
    for loop in loops.all {
      clinux_fork_monitor_thread_passes()
      // All loops are asked for it, so only when it is time.
      if serviceManager?.isDue(at: clock.now().nanoseconds) == true { _ = notifyServiceManager() }
      if let time = stalls.follow(loop, freeze: freeze) {
        next = min(next ?? .never, time)
      } else {
        quiet.append(loop)
        loop.giveUpSearch()
      }
    }
    telemetry?.observe(loops.all, now: now.nanoseconds)
    return (next, quiet)
  }

  /// Sends `WATCHDOG=1` if it is due; returns when the next is.
  ///
  /// Before and after each loop: a capture may take long.
  private func notifyServiceManager() -> Instant? {
    serviceManager?.notify(at: clock.now().nanoseconds) { loops.areHealthy() }.map(Instant.init)
  }

  /// Ends with what is open.
  private func end(_ state: WatchdogState) {
    // What is open is lost with a process that has no memory to its end.
    guard AvailableMemory.wait(until: (clock.now() + Self.longestFarewell).nanoseconds) else {
      state.abandonedLoops.store(stalls.abandon(loops.all), ordering: .relaxed)
      stalls.sink.end(abandoning: true)
      return stalls.sampler.finishThread()
    }
    serviceManager?.notifyLast(isHealthy: loops.areHealthy())
    stalls.awaitEnds(of: loops.all)
    stalls.finish(loops.all)
    telemetry?.observe([], now: clock.now().nanoseconds)
    stalls.sink.end(abandoning: false)
    stalls.sampler.finishThread()
  }
}
