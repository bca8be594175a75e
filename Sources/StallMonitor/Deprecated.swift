// Names that the public interface had before.

extension StallMonitorConfiguration {
  /// See ``maximumReportsPerMinute``.
  @available(*, deprecated, renamed: "maximumReportsPerMinute")
  public var budget: Int {
    get { maximumReportsPerMinute }
    set { maximumReportsPerMinute = newValue }
  }

  /// See ``resampleInterval``.
  @available(*, deprecated, renamed: "resampleInterval")
  public var sampling: Duration {
    get { resampleInterval }
    set { resampleInterval = newValue }
  }
}

extension StallNotice {
  /// See ``isReported``.
  @available(*, deprecated, renamed: "isReported")
  public var isTold: Bool { isReported }
}

/// See ``LoopDescription``.
@available(*, deprecated, renamed: "LoopDescription")
public typealias HeartbeatLoop = LoopDescription

/// See ``Heartbeat``.
@available(*, deprecated, renamed: "Heartbeat")
public typealias LoopHeartbeat = Heartbeat

extension Heartbeat {
  /// See ``acknowledge()``.
  @available(*, deprecated, renamed: "acknowledge()")
  public func answer() { acknowledge() }

  /// See ``stop()``.
  @available(*, deprecated, renamed: "stop()")
  public func end() { stop() }
}
