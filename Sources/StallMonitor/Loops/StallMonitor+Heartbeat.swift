import CLinux
import PlatformLibc
import StallCapture

extension StallMonitor {
  /// Watches the loop that runs on the calling thread, by heartbeats.
  ///
  /// Call it on the loop's own thread, from within the loop, which must stay on that thread. The call takes about 10
  /// us: it opens the thread's files in procfs and, where perf events are not permitted, gives the thread an alternate
  /// signal stack if it has none.
  ///
  /// A stall's duration counts from the heartbeat, so it may be short by up to one threshold; one that is longer than two thresholds is
  /// always seen. A thread that does not run is not woken; the watchdog checks it once per threshold, for a few microseconds.
  ///
  /// - Parameter loop: The loop's name, and the closure that posts a heartbeat.
  /// - Returns: A handle that ends the watch. It need not be kept. It does nothing if the monitor does
  ///   not watch.
  /// - Throws: ``StallMonitorError`` if the description is invalid, or a thread that the monitor needs
  ///   cannot be made.
  @discardableResult
  public func watchCurrentThread(as loop: LoopDescription) throws(StallMonitorError) -> LoopWatch {
    try loop.validate()
    let threshold = loop.threshold ?? configuration.threshold
    guard let resources = heartbeatResources() else { return LoopWatch(unwatched: loop.name, threshold: threshold) }
    guard resources.courier.addUser() else { throw StallMonitorError(.noThread(code: EAGAIN)) }
    ThreadEnd.prepareForCapture()
    let watchdog = resources.watchdog
    let pulse = resources.publication.pulse
    let heartbeat = ThreadHeartbeat(
      pulse: pulse, courier: resources.courier, post: loop.post, willEnd: { watchdog.list.forget(pulse) })
    watchdog.list.watch(
      WatchedLoop.Subject(
        label: .init(name: loop.name, kind: { loop.kind.loopKind }), thread: .init(id: heartbeat.threadID),
        limits: .init(
          threshold: threshold.nanoseconds, hasOwnThreshold: loop.threshold != nil,
          suspension: Suspension(within: resources.suspension)),
        publication: resources.publication, heartbeat: heartbeat))
    return LoopWatch(heartbeat, of: self, name: loop.name, threshold: threshold)
  }
}
