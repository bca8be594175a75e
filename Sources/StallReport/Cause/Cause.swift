/// Why a loop stood still.
package enum Cause: String, Sendable, CaseIterable {
  /// It computed.
  case running
  /// It waited for another thread: a lock, a condition, a semaphore.
  case lock
  /// It waited for a file, a socket, a pipe or a descriptor's readiness.
  case io
  /// It slept.
  case sleep
  /// It was ready to run, and got no processor.
  case starved
  /// Its control group had used up its processor quota.
  case throttled
  /// It waited for memory to be read back in.
  case fault
  /// The whole process was: by a signal, with its control group, by a debugger, or with its machine.
  case stopped
  /// Not enough is known to say.
  case unknown
}

/// A cause with what speaks for it.
package struct Verdict: Sendable, Equatable {
  /// What was seen, of the stalled thread alone.
  package struct Evidence: Sendable, Equatable {
    /// `running` or `blocked`, at the last sample.
    package var state: String?
    /// What it stood still in, in words: `read(fd 7 → pipe:[1234])`.
    package var wait: String?
    /// What the kernel counted since the watchdog first looked at the turn.
    package var usage: ResourceUsage?
    /// Time in which the whole process stood still (stopped, frozen, suspended); not part of the duration.
    package var frozenNanoseconds: UInt64 = 0
    /// What a hypervisor took from all of the machine's processors since the turn was found late.
    package var stolen: UInt64 = 0
    /// Time for which the report waited for memory, which the process had none of when the turn was late.
    package var memoryShortage: UInt64 = 0
    /// The thread that is waited for.
    package var lockHolder: LockHolder?
    /// Threads that wait for each other, each for the next and the last for the first.
    package var deadlock: [Int32] = []
    /// What the loop has called in the turn, as far as it says so.
    package var callouts: CalloutTimes?
    /// No function was met by more than half of the samples.
    package var samplesDisagree = false
    /// Other tasks waited for a thread meanwhile.
    package var starves = false
    /// The monitor was stopped in mid-stall: the true duration is longer.
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
    case .running: "it was computing"
    case .lock:
      "it waited for another thread" + wait + (evidence.lockHolder?.clause ?? "") + deadlockClause
    case .io: "it waited for input or output" + wait
    case .sleep: "it slept" + wait
    // What waits is the loop and not a thread of it.
    case .starved where evidence.wait != nil: "it was ready to run: " + (evidence.wait ?? "")
    case .starved: "it was ready to run and got no processor"
    case .throttled: "its control group had used up its processor quota"
    case .fault: "it waited for memory to be read from disk"
    case .stopped:
      "it was stopped by a signal or a debugger, frozen with its control group, or suspended with its machine"
    case .unknown: "the cause is not known" + wait + manyCalloutsClause
    }
  }

  /// `: it ran 389 callouts, the longest for 2 ms`.
  private var manyCalloutsClause: String {
    if evidence.samplesDisagree { return ": no function was met by more than half of the samples" }
    guard let callouts = evidence.callouts, callouts.count > 1 else { return "" }
    return ": it ran \(callouts.count) callouts, the longest for \(callouts.longestOfAll / 1_000_000) ms"
  }

  /// `; deadlock: thread 12 waits for 13, and 13 for 12`.
  private var deadlockClause: String {
    guard let first = evidence.deadlock.first else { return "" }
    if evidence.deadlock.count == 1 { return "; deadlock: thread \(first) waits for itself" }
    let pairs = zip(evidence.deadlock, evidence.deadlock.dropFirst() + [first])
    return "; deadlock: thread " + pairs.map { "\($0) waits for \($1)" }.joined(separator: ", ")
  }

  /// Returns why a thread that was ready to run got no further, by where its time went; nil if too little time was observed to say.
  package static func ready(_ usage: ResourceUsage?) -> Cause? {
    guard let usage, usage.observed >= 10_000_000 else { return nil }
    if usage.throttled > usage.observed / 2 { return .throttled }
    guard usage.runDelay > usage.observed / 2, usage.cpu < usage.runDelay else { return .running }
    // On a busy machine a group waits for a processor besides; where its quota was the greater part, that is the cause.
    return usage.throttled > usage.runDelay / 2 ? .throttled : .starved
  }
}

extension Cause {
  /// Whether the thread was ready to run all the while: where its time went tells these apart.
  package var isReady: Bool { self == .running || self == .starved || self == .throttled }
}
