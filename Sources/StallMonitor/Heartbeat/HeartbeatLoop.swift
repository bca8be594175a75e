/// A loop that cannot be observed from inside, and is asked from outside whether it turns.
///
/// For any executor that belongs to one thread. The watchdog posts a heartbeat and the loop answers it; one that is not answered
/// for the threshold is a stall.
public struct HeartbeatLoop: Sendable {
  /// What kind of loop it is, as a report's `loop.kind` says it.
  public enum Kind: String, Sendable, CaseIterable {
    /// An event loop of SwiftNIO.
    case nio
    /// Any other loop that runs on one thread.
    case executor
  }

  /// The loop's name in reports: 1 to 64 bytes without control characters.
  public var name: String

  /// What kind of loop it is.
  public var kind: Kind

  /// How long a heartbeat may go unanswered before it is a stall, from 1 ms to 1 h.
  ///
  /// Nil is the monitor's own threshold. A loop is sent one heartbeat a threshold at most.
  public var threshold: Duration?

  /// Sends the loop word that it is to call ``LoopHeartbeat/answer()`` on its thread.
  ///
  /// Called on a thread of the monitor's that posts all heartbeats, while the loop's thread may be blocked anywhere: it must neither wait nor take
  /// a lock that the service holds for long. It is called again only when the last heartbeat was answered.
  public var post: @Sendable (LoopHeartbeat) -> Void

  /// A loop for ``StallMonitor/watchCurrentThread(as:)``.
  ///
  /// - Parameters:
  ///   - name: The loop's name in reports.
  ///   - kind: What kind of loop it is.
  ///   - threshold: How long a heartbeat may go unanswered; nil is the monitor's own threshold.
  ///   - post: Sends the loop word that it is to answer; see ``post``.
  public init(
    name: String, kind: Kind = .executor, threshold: Duration? = nil, post: @escaping @Sendable (LoopHeartbeat) -> Void
  ) {
    self.name = name
    self.kind = kind
    self.threshold = threshold
    self.post = post
  }

  /// Throws ``StallMonitorError/invalidLoop(key:value:allowed:)`` if a value cannot be used.
  public func check() throws(StallMonitorError) {
    try StallMonitorConfiguration.checkLoop(name: name, threshold: threshold)
  }
}
