import StallReport

/// One rule by which evidence shows a cause.
package struct CauseRule: Sendable {
  /// What the rule says, in one sentence with its reason.
  package let text: String
  /// The cause, if the rule applies.
  package let cause: @Sendable (StallEvidence) -> Cause?

  init(_ text: String, _ cause: @escaping @Sendable (StallEvidence) -> Cause?) {
    (self.text, self.cause) = (text, cause)
  }

  /// All rules, in the order in which they apply.
  package static let all = [
    shortPieces, stopped, noProcessor, countersOfReadyThread, largestShare, call, pageFromDisk, ready,
  ]

  private static let shortPieces = CauseRule(
    "Many short pieces of work have no common cause, unless no processor was free for most of the time."
  ) { evidence in
    guard evidence.failure == .shortCallouts || evidence.failure == .noCommonFunction else { return nil }
    guard let usage = evidence.usage, usage.runDelay > usage.observed / 2 else { return .unknown }
    return readyCause(usage).flatMap { $0.isKeptFromRunning ? $0 : nil } ?? .unknown
  }

  private static let stopped = CauseRule("A thread that a tracer or a signal holds does nothing else.") { evidence in
    evidence.isMoment && evidence.failure == .stopped ? .stopped : nil
  }

  private static let noProcessor = CauseRule(
    "A thread that got no processor during a whole capture waits for one, and so does work without a thread."
  ) { evidence in
    evidence.isMoment && (evidence.failure == .noProcessor || evidence.failure == .noServer) ? .starved : nil
  }

  private static let countersOfReadyThread = CauseRule(
    "Counters of half of the stall, or of half of its ready time, say more of a ready thread than samples do."
  ) { evidence in
    guard !evidence.isMoment, evidence.largestShare.isReady, evidence.failure != .noProcessor,
      let usage = evidence.usage,
      usage.observed >= evidence.duration / 2 || usage.readyTime >= evidence.readyShare / 2
    else { return nil }
    return readyCause(usage)
  }

  private static let largestShare = CauseRule("What took the most time is the cause.") { evidence in
    evidence.largestShare == .unknown ? nil : evidence.largestShare
  }

  private static let call = CauseRule("A thread that is blocked in a system call waits for what the call is for.") {
    evidence in
    guard evidence.isMoment, case .inCall(let cause) = evidence.activity else { return nil }
    return cause
  }

  private static let pageFromDisk = CauseRule(
    "A thread that is blocked outside of a call waits for the disk if pages were read, which is counted afterwards."
  ) { evidence in
    evidence.activity == .outsideCall && (evidence.usage?.majorFaults ?? 0) > 0 ? .fault : nil
  }

  private static let ready = CauseRule("A ready thread runs, unless counters show that it had no processor.") {
    evidence in
    evidence.isMoment && evidence.activity == .running ? readyCause(evidence.usage) ?? .running : nil
  }

  /// Counters of a shorter time say nothing: the kernel counts a running thread's time at its clock's ticks.
  private static let shortestTime: UInt64 = 10_000_000
  /// A shorter delay is normal scheduling.
  private static let normalDelay: UInt64 = 5_000_000

  /// Returns why a thread that was ready to run made no progress, by its counters; nil if their time is too short.
  ///
  /// Where the kernel does not count how long it waited for a processor, only a thread that had one is known to have been running.
  static func readyCause(_ usage: ResourceUsage?) -> Cause? {
    guard let usage, max(usage.observed, usage.readyTime) >= shortestTime else { return nil }
    guard usage.countsRunDelay else { return usage.cpu >= usage.observed / 2 ? .running : .unknown }
    guard usage.runDelay > normalDelay, usage.cpu < usage.runDelay else { return .running }
    // On a busy machine a throttled group also waits for a CPU: the larger part is the cause.
    return usage.throttled > usage.runDelay / 2 ? .throttled : .starved
  }
}
