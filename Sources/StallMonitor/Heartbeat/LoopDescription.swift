/// A loop that is watched by heartbeats: its name, and a closure that posts a heartbeat to it.
///
/// For any executor that belongs to one thread and cannot be observed from inside. The monitor
/// posts a heartbeat and the loop acknowledges it. One that is not acknowledged within the
/// threshold is a stall.
public struct LoopDescription: Sendable {
  /// The kind of a loop, as a report's `loop.kind` says it.
  public struct Kind: Sendable, Hashable, CustomStringConvertible {
    /// The kinds that a service can describe, by the word of the report.
    enum Value: String, Sendable, CaseIterable {
      case nio
      case executor
    }

    let value: Value

    /// An event loop of SwiftNIO.
    public static let nio = Kind(value: .nio)
    /// Any other loop that runs on one thread.
    public static let executor = Kind(value: .executor)

    /// The word of the report.
    public var description: String { value.rawValue }
  }

  /// The loop's name in reports: 1 to 64 bytes without control characters.
  public var name: String

  /// The kind of the loop.
  public var kind: Kind

  /// How long a heartbeat may go unacknowledged before it is a stall, from 1 ms to 1 h.
  ///
  /// Nil is the monitor's own threshold. A loop is sent at most one heartbeat per threshold.
  public var threshold: Duration?

  /// A closure that makes the loop call ``Heartbeat/acknowledge()`` on its thread.
  ///
  /// The monitor calls it on one thread that posts all heartbeats, and only after the loop has
  /// acknowledged the last heartbeat.
  ///
  /// - Important: It must neither wait nor take a lock that the service holds for long: the loop's
  ///   thread may be blocked anywhere.
  public var post: @Sendable (Heartbeat) -> Void

  /// Describes a loop for ``StallMonitor/watchCurrentThread(as:)``.
  ///
  /// - Parameters:
  ///   - name: The loop's name in reports.
  ///   - kind: The kind of the loop.
  ///   - threshold: How long a heartbeat may go unacknowledged; nil is the monitor's own threshold.
  ///   - post: Has the loop acknowledge a heartbeat; see ``post``.
  public init(
    name: String, kind: Kind = .executor, threshold: Duration? = nil, post: @escaping @Sendable (Heartbeat) -> Void
  ) {
    self.name = name
    self.kind = kind
    self.threshold = threshold
    self.post = post
  }

  /// Throws a ``StallMonitorError`` with the code `invalidLoop` if the name or the threshold is
  /// invalid.
  ///
  /// ``StallMonitor/watchCurrentThread(as:)`` does so, too, on the loop's thread.
  public func validate() throws(StallMonitorError) {
    try StallMonitorConfiguration.checkLoop(name: name, threshold: threshold)
  }
}
