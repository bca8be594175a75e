import NIOCore
import StallMonitor

extension StallMonitor {
  /// Watches every event loop of a group, and reports each turn that takes too long with its responsible function.
  ///
  /// ```swift
  /// let monitor = try StallMonitor.start()
  /// try monitor.watch(MultiThreadedEventLoopGroup.singleton)
  /// ```
  ///
  /// Reports name the loops `nio-0`, `nio-1` …, in the order of the group's iterator. Each loop is watched from its first turn on. A group that
  /// is shut down is released. Thread-safe; returns at once.
  ///
  /// A heartbeat is a byte in a descriptor of the loop, as it comes from a network: it takes no lock
  /// of SwiftNIO's, and schedules nothing on a loop that has been shut down. A loop that runs is
  /// woken at most once in a threshold, and one that waits for its descriptors is not woken. Each
  /// loop costs two descriptors and one channel, beside the monitor's own files.
  ///
  /// - Parameters:
  ///   - group: A `MultiThreadedEventLoopGroup`, or one of its event loops.
  ///   - name: What the loops' names begin with. Groups in one process should differ in it.
  ///   - threshold: How long a turn may take before it is a stall; nil is the monitor's own threshold.
  /// - Returns: A handle that ends the watch. You need not keep it.
  /// - Throws: `StallMonitorError` with the code `unsupportedEventLoop` if an event loop is not one
  ///   of a `MultiThreadedEventLoopGroup`, `noDescriptor` if the process has no descriptor left, or
  ///   `invalidLoop` if the name or the threshold is invalid. Then no loop of the group is watched.
  @discardableResult
  public func watch(
    _ group: any EventLoopGroup, name: String = "nio", threshold: Duration? = nil
  ) throws(StallMonitorError) -> EventLoopGroupWatch {
    let watch = EventLoopGroupWatch()
    // A monitor that is disabled, or that an operator has misconfigured, leaves the group alone.
    guard isWatching else { return watch }
    do throws(StallMonitorError) {
      for (index, loop) in group.makeIterator().enumerated() {
        watch.add(try EventLoopHeartbeat(loop: loop, name: "\(name)-\(index)", threshold: threshold, monitor: self))
      }
    } catch {
      watch.stop()
      throw error
    }
    watch.begin()
    return watch
  }
}
