import CLinux
import Glibc
import StallCapture

extension StallMonitor {
  /// Watches the loop that runs on the calling thread, by heartbeats.
  ///
  /// Call it on the loop's own thread, from within the loop, which must stay on that thread. Costs some 10 us there: it gives the
  /// thread an alternate signal stack if it has none, and opens its files in procfs.
  ///
  /// A stall's duration counts from the heartbeat, so it may be short by up to one threshold; one that is longer than two thresholds is
  /// always seen. A thread that does not run is not woken; the watchdog checks it once per threshold, for a few microseconds.
  ///
  /// - Parameter loop: What to post, and how reports describe the loop.
  /// - Returns: What the loop answers by. Nil if this monitor does not watch: it is disabled or stopped, or this is the child of a fork.
  /// - Throws: ``StallMonitorError/invalidLoop(key:value:allowed:)``.
  @discardableResult
  public func watchCurrentThread(as loop: HeartbeatLoop) throws(StallMonitorError) -> LoopHeartbeat? {
    try loop.check()
    guard let resources = heartbeatResources(), resources.courier.addUser() else { return nil }
    ThreadEnd.prepareForCapture()
    let watchdog = resources.watchdog
    let pulse = resources.publication.pulse
    let heartbeat = LoopHeartbeat(
      pulse: pulse, courier: resources.courier, post: loop.post, willEnd: { watchdog.list.forget(pulse) })
    watchdog.list.watch(
      WatchedLoop.Subject(
        label: .init(name: loop.name, kind: { loop.kind.rawValue }), thread: .init(id: heartbeat.threadID),
        limits: .init(
          threshold: (loop.threshold ?? configuration.threshold).nanoseconds, hasOwnThreshold: loop.threshold != nil,
          suspension: resources.suspension),
        publication: resources.publication, heartbeat: heartbeat))
    return heartbeat
  }
}
