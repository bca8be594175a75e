/// A handle that a watched loop uses to acknowledge heartbeats.
///
/// ``StallMonitor/watchCurrentThread(as:)`` makes one for each loop. It is valid until the watch
/// ends.
public struct Heartbeat: Sendable {
  /// Nil if the monitor does not watch.
  let receiver: (any HeartbeatReceiver)?

  /// Acknowledges a heartbeat: the loop turns.
  ///
  /// About 200 ns; takes no lock and does not allocate.
  ///
  /// - Important: Call it on the loop's thread. A call on another thread ends the watch, since no
  ///   stack could be trusted.
  public func acknowledge() { receiver?.acknowledge() }

  /// Ends the watch of the loop.
  ///
  /// From any thread; idempotent. A stall in progress is reported as ended, marked `watch_ended`.
  public func stop() { receiver?.stop() }
}

/// A watch that a loop's heartbeats are acknowledged to.
protocol HeartbeatReceiver: AnyObject, Sendable {
  func acknowledge()
  func stop()
}
