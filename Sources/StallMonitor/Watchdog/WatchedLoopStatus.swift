/// A loop that a monitor watches, as it is at one moment.
public struct WatchedLoopStatus: Sendable, Hashable {
  /// The loop's name in reports; the main loop is `main`.
  public let name: String
  /// Which run loop it is, as a report's `loop.kind` says it: `loop`, `foundation`, `main-queue`, `nio` and so on.
  ///
  /// Nil for a main loop that has not turned yet. It may change: a service may go over from a run loop to `dispatchMain()`.
  public let kind: String?
  /// The thread that runs it; nil if none does at this moment, as for a main queue without work.
  public let threadID: Int32?
  /// How long a turn of the loop may take before it is a stall.
  public let threshold: Duration
}

extension WatchedLoopStatus {
  init(_ subject: WatchedLoop.Subject) {
    self.init(
      name: subject.label.name, kind: subject.knownKind, threadID: subject.currentThreadID,
      threshold: .nanoseconds(Int64(clamping: subject.limits.threshold)))
  }
}

extension WatchedLoop.Subject {
  /// The thread that runs the loop; nil if none does at this moment.
  var currentThreadID: Int32? {
    guard let heartbeat, heartbeat.isBeating else { return thread.id }
    if case .thread(let server) = heartbeat.server { return server }
    return nil
  }
}

extension WatchedLoop: ObservedLoop {
  var name: String { subject.label.name }
  var knownKind: String? { subject.knownKind }
  var loggedKinds: Set<String> {
    get { logged.kinds }
    set { logged.kinds = newValue }
  }
  var threadID: Int32? { subject.currentThreadID }
  var thresholdDuration: Duration { .nanoseconds(Int64(clamping: threshold)) }
}

extension CountedLoop {
  init(_ subject: WatchedLoop.Subject) {
    self.init(id: ObjectIdentifier(subject.pulse), name: subject.label.name, meter: subject.inspection.meter)
  }
}
