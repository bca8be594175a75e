import CLinux
import PlatformLibc
import StallCapture

extension StallMonitor {
  /// Watches the loop that runs on the calling thread, by heartbeats.
  ///
  /// Call it on the loop's own thread, from within the loop, which must stay on that thread. The call takes about 10
  /// us. Where perf events are not permitted, it gives the thread an alternate signal stack if it has none.
  ///
  /// A stall's duration counts from the heartbeat, so it may be up to one threshold too short. A stall that is longer than two thresholds
  /// is always found. The watchdog checks the thread once per threshold, for a few microseconds. It does not wake a thread that waits for
  /// its descriptors (`Documentation/Performance.md` lists the exceptions).
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
