/// A cause, with evidence.
package struct Verdict: Sendable, Equatable {
  package var cause: Cause
  package var evidence: Evidence

  package init(cause: Cause, evidence: Evidence) {
    self.cause = cause
    self.evidence = evidence
  }

  /// The cause in words.
  package var sentence: String {
    let wait = evidence.wait.map { " in " + $0 } ?? ""
    return switch cause {
    case .running: "running on CPU" + processorClause
    case .lock: "waiting" + lockClause + deadlockClause
    case .io: "waiting for I/O" + wait
    case .sleep: "sleeping" + wait
    // No thread serves the loop: `wait` is a sentence. A thread that waits for a CPU has a state.
    case .starved:
      (evidence.state == nil ? evidence.wait : nil) ?? "ready to run, but no CPU was available" + processorClause
    case .throttled: "throttled: its control group had used up its CPU quota"
    case .fault: "waiting for memory to be read from disk"
    // Of one thread, `wait` is a sentence.
    case .stopped:
      evidence.wait
        ?? "stopped by a signal or a debugger, frozen with its control group, or suspended with the machine"
    case .unknown: "cause unknown" + (wait.isEmpty ? "" : ", waiting" + wait) + manyCalloutsClause
    }
  }

  /// `: on CPU for 734 ms, ready without a CPU for 815 ms`, where neither is most of the time.
  private var processorClause: String {
    guard let usage = evidence.usage, usage.countsRunDelay, usage.readyTime >= 10_000_000,
      3 * max(usage.cpu, usage.runDelay) < 2 * usage.readyTime
    else { return "" }
    return ": on CPU for \(usage.cpu.inMilliseconds) ms, ready without a CPU for \(usage.runDelay.inMilliseconds) ms"
  }

  /// ` in futex(wait) for a pthread mutex held by thread 12`.
  private var lockClause: String {
    let lock = evidence.lockHolder?.text ?? evidence.lock
    var call = evidence.wait.map { " in " + $0 } ?? ""
    if let lock, call.hasSuffix(": " + lock) { call.removeLast(lock.count + 2) }
    if let holder = evidence.lockHolder { return call + " for " + holder.phrase }
    return call + " " + evidence.waitedFor.phrase + (lock.map { " (\($0))" } ?? "")
  }

  /// `: 389 callouts ran, the longest for 2 ms`.
  private var manyCalloutsClause: String {
    if evidence.samplesDisagree { return ": no function is in more than half of the samples" }
    guard let callouts = evidence.callouts, callouts.count > 1 else { return "" }
    return ": \(callouts.count) callouts ran, the longest for \(callouts.longestOfAll.inMilliseconds) ms"
  }

  /// `; deadlock: thread 12 waits for 13, 13 waits for 12`.
  private var deadlockClause: String {
    guard let first = evidence.deadlock.first else { return "" }
    if evidence.deadlock.count == 1 { return "; deadlock: thread \(first) waits for itself" }
    let pairs = zip(evidence.deadlock, evidence.deadlock.dropFirst() + [first])
    return "; deadlock: thread " + pairs.map { "\($0) waits for \($1)" }.joined(separator: ", ")
  }
}
