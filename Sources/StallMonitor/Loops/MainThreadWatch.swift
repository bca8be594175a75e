import PlatformLibc
import StallCapture

/// The watch of the main thread's loop, whichever it comes to be: `Loop.main`, Foundation's run loop or the main queue.
struct MainThreadWatch: Sendable {
  private let loop: MainLoop
  private let foundation: FoundationMainLoop
  private let queue: MainQueueHeartbeat

  /// Begins the watch.
  init(by registry: LoopRegistry, beats: Courier, suspension: Suspension, configuration: StallMonitorConfiguration) {
    let publication = registry.makePublication()
    let pulse = publication.pulse
    let stamper = TurnStamper(pulse: pulse)
    let foundation = FoundationMainLoop(registry: registry, stamper: stamper)
    let heartbeat = MainQueueHeartbeat(
      pulse: pulse, stamper: stamper, semaphore: registry.watchdog.semaphore, courier: beats, runLoop: foundation)
    let loop = MainLoop(registry: registry, stamper: stamper)
    let subject = WatchedLoop.Subject(
      label: .init(name: "main", kind: { stamper.kind.loopKind }, findsKind: true),
      thread: .init(id: getpid(), stackEnd: ProcessFacts.mainStackEnd()),
      limits: .init(threshold: configuration.threshold.nanoseconds, suspension: Suspension(within: suspension)),
      publication: publication, heartbeat: heartbeat,
      inspection: .init(
        state: { loop.status }, knownRuns: { stamper.expectedFoundationRuns }, meter: { loop.meter }))
    registry.takeMainName()
    registry.watchdog.list.watch(subject)
    loop.begin()
    self.loop = loop
    self.foundation = foundation
    foundation.look()
    queue = heartbeat
    heartbeat.prepare()
  }

  /// Begins to watch Foundation's run loop, if it has come to exist.
  func lookForRunLoop() { foundation.look() }

  /// Ends the watch.
  func end() {
    loop.end()
    foundation.end()
    queue.end()
  }
}
