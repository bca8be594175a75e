/// A heartbeat that a watched loop acknowledges.
///
/// ``LoopDescription/post`` gets it. It is valid until the watch ends.
public struct Heartbeat: Sendable {
  let receiver: any HeartbeatReceiver

  /// Acknowledges a heartbeat, which shows that the loop turns.
  ///
  /// About 200 ns; takes no lock and does not allocate.
  ///
  /// - Important: Call it on the loop's thread. A call on another thread ends the watch, since no
  ///   stack could be trusted.
  public func acknowledge() { receiver.acknowledge() }
}

/// A watch that a loop's heartbeats are acknowledged to.
protocol HeartbeatReceiver: AnyObject, Sendable {
  func acknowledge()
}
