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
    let publication = registry.makePublication()
    let pulse = publication.pulse
    let stamper = TurnStamper(pulse: pulse)
    let heartbeat = MainQueueHeartbeat(
      pulse: pulse, stamper: stamper, semaphore: registry.watchdog.semaphore, courier: beats)
    let loop = MainLoop(registry: registry, stamper: stamper)
    let subject = WatchedLoop.Subject(
      label: .init(name: "main", kind: { stamper.kind.reportName }, findsKind: true),
      thread: .init(id: getpid(), stackEnd: ProcessFacts.mainStackEnd()),
      limits: .init(threshold: configuration.threshold.nanoseconds, suspension: Suspension(within: suspension)),
      publication: publication, heartbeat: heartbeat,
      inspection: .init(
        state: { loop.status }, isInUnseenRun: { stamper.isInUnseenRun($0) }, meter: { loop.meter }))
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
