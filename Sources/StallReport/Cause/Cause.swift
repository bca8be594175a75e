/// Why a loop was blocked.
package enum Cause: String, Sendable, CaseIterable {
  /// It ran on a CPU.
  case running
  /// It waited for another thread: a lock, a condition, a semaphore.
  case lock
  /// It waited for a file, a socket, a pipe or a descriptor's readiness.
  case io
  /// It slept.
  case sleep
  /// It was ready to run and got no CPU.
  case starved
  /// Its control group had used up its CPU quota.
  case throttled
  /// It waited for memory to be read back in.
  case fault
  /// The whole process was stopped by a signal or a debugger, frozen with its control group, or suspended
  /// with the machine.
  case stopped
  /// The evidence is not sufficient.
  case unknown
}

/// A cause, with evidence.
package struct Verdict: Sendable, Equatable {
  /// The observations of the stalled thread.
  package struct Evidence: Sendable, Equatable {
    /// `running` or `blocked`, at the last sample.
    package var state: String?
    /// The call that it was waiting in, in words: `read(fd 7 → pipe:[1234])`.
    package var wait: String?
    /// The kernel's counters since the watchdog first checked the turn.
    package var usage: ResourceUsage?
    /// Time in which the whole process was stopped, frozen or suspended; not part of the duration.
    package var frozenNanoseconds: UInt64 = 0
    /// CPU time that a hypervisor took from all of the machine's CPUs since the turn was found late.
    package var stolen: UInt64 = 0
    /// How long the report was delayed because the process had no memory left when the turn was late.
    package var memoryShortage: UInt64 = 0
    /// The thread that the stalled thread waits for.
    package var lockHolder: LockHolder?
    /// The lock that ends `wait`, in a summary, whose stalls may have had different lock holders.
    package var lock: String?
    /// Threads that wait for each other: each for the next, and the last for the first.
    package var deadlock: [Int32] = []
    /// The callouts of the turn, if the loop counts them.
    package var callouts: CalloutTimes?
    /// No function is in more than half of the samples.
    package var samplesDisagree = false
    /// Other tasks were waiting for a thread during the stall.
    package var starves = false
    /// The watch of the loop ended during the stall (the watch or the monitor was stopped, or the agent disabled it): the
    /// stall was longer.
    package var watchEnded = false

    package init(state: String? = nil, wait: String? = nil) {
      self.state = state
      self.wait = wait
    }

    package func write(into line: inout JSONWriter) {
      line.member("state", state)
      line.member("wait", wait?.limited(to: 300))
      if let usage {
        line.member("observed_ms", milliseconds: usage.observed)
        line.member("cpu_ms", milliseconds: usage.cpu)
        line.member("run_delay_ms", milliseconds: usage.runDelay)
        if usage.throttled > 0 { line.member("throttled_ms", milliseconds: usage.throttled) }
        if usage.majorFaults > 0 { line.member("major_faults", usage.majorFaults) }
        if usage.minorFaults > 0 { line.member("minor_faults", usage.minorFaults) }
        if usage.blockDelay > 0 { line.member("block_io_delay_ms", milliseconds: usage.blockDelay) }
        if let pressure = usage.pressure {
          line.object("pressure") {
            $0.member("cpu_ms", milliseconds: pressure.processor)
            $0.member("io_ms", milliseconds: pressure.storage)
            $0.member("memory_ms", milliseconds: pressure.memory)
          }
        }
      }
      if frozenNanoseconds > 0 { line.member("frozen_ms", milliseconds: frozenNanoseconds) }
      if stolen > 0 { line.member("stolen_ms", milliseconds: stolen) }
      if memoryShortage > 0 { line.member("memory_shortage_ms", milliseconds: memoryShortage) }
      line.member("lock_holder", lockHolder?.thread)
      line.member("lock_kind", lockHolder?.kind.rawValue)
      if !deadlock.isEmpty { line.array("deadlock", deadlock) }
      if let callouts, callouts.count > 1 {
        line.member("callouts", callouts.count)
        line.member("longest_callout_ms", milliseconds: callouts.longestOfAll)
      }
      line.member("samples_disagree", ifTrue: samplesDisagree)
      line.member("starves", ifTrue: starves)
      line.member("watch_ended", ifTrue: watchEnded)
    }
  }

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
    case .running: "running on CPU"
    case .lock: "waiting" + lockClause + deadlockClause
    case .io: "waiting for I/O" + wait
    case .sleep: "sleeping" + wait
    // No thread serves the loop: `wait` is a sentence. A thread that waits for a CPU has a state.
    case .starved:
      (evidence.state == nil ? evidence.wait : nil) ?? "ready to run, but no CPU was available"
    case .throttled: "throttled: its control group had used up its CPU quota"
    case .fault: "waiting for memory to be read from disk"
    case .stopped:
      "stopped by a signal or a debugger, frozen with its control group, or suspended with the machine"
    case .unknown: "cause unknown" + (wait.isEmpty ? "" : ", waiting" + wait) + manyCalloutsClause
    }
  }

  /// ` in futex(wait) for a pthread mutex held by thread 12`.
  private var lockClause: String {
    let lock = evidence.lockHolder?.text ?? evidence.lock
    var call = evidence.wait.map { " in " + $0 } ?? ""
    if let lock, call.hasSuffix(": " + lock) { call.removeLast(lock.count + 2) }
    return call + " for " + (evidence.lockHolder?.phrase ?? "another thread" + (lock.map { " (\($0))" } ?? ""))
  }

  /// `: 389 callouts ran, the longest for 2 ms`.
  private var manyCalloutsClause: String {
    if evidence.samplesDisagree { return ": no function is in more than half of the samples" }
    guard let callouts = evidence.callouts, callouts.count > 1 else { return "" }
    return ": \(callouts.count) callouts ran, the longest for \(callouts.longestOfAll / 1_000_000) ms"
  }

  /// `; deadlock: thread 12 waits for 13, and 13 for 12`.
  private var deadlockClause: String {
    guard let first = evidence.deadlock.first else { return "" }
    if evidence.deadlock.count == 1 { return "; deadlock: thread \(first) waits for itself" }
    let pairs = zip(evidence.deadlock, evidence.deadlock.dropFirst() + [first])
    return "; deadlock: thread " + pairs.map { "\($0) waits for \($1)" }.joined(separator: ", ")
  }

  /// Returns why a thread that was ready to run made no progress; nil if the observed time is too short.
  package static func ready(_ usage: ResourceUsage?) -> Cause? {
    guard let usage, usage.observed >= 10_000_000 else { return nil }
    if usage.throttled > usage.observed / 2 { return .throttled }
    guard usage.runDelay > usage.observed / 2, usage.cpu < usage.runDelay else { return .running }
    // On a busy machine a throttled group also waits for a CPU: the larger part is the cause.
    return usage.throttled > usage.runDelay / 2 ? .throttled : .starved
  }
}

extension Cause {
  /// Whether the thread was ready to run all the time.
  ///
  /// Its CPU time and delays distinguish these causes.
  package var isReady: Bool { self == .running || isKeptFromRunning }

  /// Whether the thread was ready to run all the time, and something else took the processor.
  ///
  /// `scripts/run-corpus` reads these causes here.
  package var isKeptFromRunning: Bool {
    switch self {
    case .starved, .throttled: true
    case .running, .lock, .io, .sleep, .fault, .stopped, .unknown: false
    }
  }
}
