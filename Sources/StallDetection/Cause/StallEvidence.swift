import StallReport

/// What is known of a stall, or of one moment of it, when its cause is decided.
///
/// Samplers and counters fill it in; ``cause`` alone judges it.
package struct StallEvidence: Sendable {
  /// What the thread was doing: at the moment, or in the sample that represents the stall.
  package var activity: ThreadActivity
  /// Why that sample has no stack or no function.
  package var failure: CaptureFailure?
  /// What the kernel counted for the thread; nil if that is not known.
  package var usage: ResourceUsage?
  /// How long the stall lasted, in nanoseconds.
  package var duration: UInt64 = 0
  /// For how much of the stall each cause was seen; empty for a moment.
  package var shares: [Cause: UInt64] = [:]

  /// What is known of one moment.
  package init(activity: ThreadActivity, failure: CaptureFailure? = nil, usage: ResourceUsage? = nil) {
    (self.activity, self.failure, self.usage) = (activity, failure, usage)
  }

  /// What is known of a whole stall.
  package init(
    activity: ThreadActivity, failure: CaptureFailure?, usage: ResourceUsage?, duration: UInt64,
    shares: [Cause: UInt64]
  ) {
    self.init(activity: activity, failure: failure, usage: usage)
    (self.duration, self.shares) = (duration, shares)
  }

  /// Whether this is one moment, and not a stall with samples.
  var isMoment: Bool { shares.isEmpty }

  /// For how much of the stall the thread was ready to run.
  var readyShare: UInt64 { shares.reduce(0) { $1.key.isReady ? $0 + $1.value : $0 } }

  /// The cause that took the most time; of equals, the one that is known.
  ///
  /// The causes of a thread that is ready to run count as one, and the one that took the most of that time represents them.
  package var largestShare: Cause {
    func largest(_ shares: [Cause: UInt64]) -> (key: Cause, value: UInt64)? {
      shares.max { ($0.value, $0.key == .unknown ? 0 : 1) < ($1.value, $1.key == .unknown ? 0 : 1) }
    }
    let ready = shares.filter { $0.key.isReady }
    let other = largest(shares.filter { !$0.key.isReady })
    if let other, other.value > readyShare || (other.value == readyShare && other.key != .unknown) { return other.key }
    return largest(ready)?.key ?? .unknown
  }

  /// The cause, by the first rule of ``CauseRule/all`` that applies.
  package var cause: Cause {
    for rule in CauseRule.all {
      if let cause = rule.cause(self) { return cause }
    }
    return .unknown
  }

  /// Whether the machine keeps the turn from ending, and not the service.
  ///
  /// A service whose own group uses up its quota, or whose tasks take all threads of a pool, does that itself.
  package var isOfTheMachine: Bool {
    switch cause {
    case .starved: failure != .noServer
    case .throttled: usage.map { $0.throttledByOwnQuota < $0.throttled / 2 } ?? false
    case .stopped: true
    case .running, .lock, .io, .sleep, .fault, .unknown: false
    }
  }
}
