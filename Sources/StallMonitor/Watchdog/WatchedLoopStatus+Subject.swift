import StallReport

extension WatchedLoopStatus {
  /// A loop's status; `agentThreshold` is 0 unless an agent has set one.
  init(_ subject: WatchedLoop.Subject, agentThreshold: UInt64) {
    let isTuned = agentThreshold != 0 && !subject.limits.hasOwnThreshold
    self.init(
      name: subject.label.name, kind: subject.knownKind.map { Kind(rawValue: $0.rawValue) },
      threadID: subject.currentThreadID,
      threshold: .nanoseconds(Int64(clamping: isTuned ? agentThreshold : subject.limits.threshold)))
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
  var knownKind: LoopKind? { subject.knownKind }
  var loggedKinds: Set<LoopKind> {
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
