import CLinux
import Glibc
import StallCapture

/// The watch of the main thread's loop, whichever it comes to be: `Loop.main`, Foundation's run loop or the main queue.
struct MainThreadWatch: Sendable {
  private let loop: MainLoop
  private let foundation: FoundationPulseObserver.Attachment?
  private let queue: MainQueueHeartbeat

  /// Begins the watch.
  init(by registry: LoopRegistry, beats: Courier, suspension: Suspension, configuration: StallMonitorConfiguration) {
    let (pulse, records) = registry.makePulse()
    let stamper = TurnStamper(pulse: pulse)
    let heartbeat = MainQueueHeartbeat(
      pulse: pulse, stamper: stamper, semaphore: registry.watchdog.semaphore, courier: beats)
    let loop = MainLoop(registry: registry, stamper: stamper)
    let subject = WatchedLoop.Subject(
      name: "main", kind: { stamper.kind.reportName }, threadID: getpid(), stackEnd: ProcessFacts.mainStackEnd(),
      threshold: configuration.threshold.nanoseconds, pulse: pulse, records: records, suspension: suspension,
      state: { loop.status }, isInUnseenRun: { stamper.isInUnseenRun($0) }, heartbeat: heartbeat, findsKind: true,
      meter: { loop.meter })
    registry.addMain(clinux_cf_is_here() ? .coreFoundation(UInt(bitPattern: clinux_cf_main_run_loop())) : nil)
    registry.watchdog.list.watch(subject)
    loop.begin()
    self.loop = loop
    foundation = FoundationPulseObserver.attachToMain(stamper)
    queue = heartbeat
    heartbeat.prepare()
  }

  /// Ends the watch.
  func end() {
    loop.end()
    foundation?.end()
    queue.end()
  }
}
