/// Why a loop stood still.
enum Cause: String, Sendable, CaseIterable {
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
  /// It waited for memory to be read back in.
  case fault
  /// Not enough is known to say.
  case unknown
}

/// A cause with what speaks for it.
struct Verdict: Sendable, Equatable {
  /// What was seen, of the stalled thread alone.
  struct Evidence: Sendable, Equatable {
    /// `running` or `blocked`, at the last sample.
    var state: String?
    /// What it stood still in, in words: `read(fd 7 → pipe:[1234])`.
    var wait: String?
    /// Of how many samples each cause was seen.
    var seen: [Cause: Int] = [:]
    /// The time over which the next three were measured.
    var observedNanoseconds: UInt64?
    /// Time on a processor.
    var cpuNanoseconds: UInt64?
    /// Time spent ready to run, without a processor.
    var runDelayNanoseconds: UInt64?
    var majorFaults: UInt64?
    /// Time in which the whole process stood still (stopped, frozen, suspended); not part of the duration.
    var frozenNanoseconds: UInt64 = 0
    /// The thread that holds the lock.
    var lockHolder: Int32?
    /// The monitor was stopped in mid-stall: the true duration is longer.
    var watchEnded = false

    func write(into line: inout JSONLine) {
      line.member("state", state)
      line.member("wait", wait?.limited(to: 300))
      line.member("observed_ms", milliseconds: observedNanoseconds)
      line.member("cpu_ms", milliseconds: cpuNanoseconds)
      line.member("run_delay_ms", milliseconds: runDelayNanoseconds)
      if let majorFaults, majorFaults > 0 { line.member("major_faults", majorFaults) }
      if frozenNanoseconds > 0 { line.member("frozen_ms", milliseconds: frozenNanoseconds) }
      line.member("lock_holder", lockHolder)
      line.member("watch_ended", ifTrue: watchEnded)
    }
  }

  var cause: Cause
  var evidence: Evidence

  /// The cause in words.
  var sentence: String {
    let wait = evidence.wait.map { " in " + $0 } ?? ""
    return switch cause {
    case .running: "it was computing"
    case .lock: "it waited for another thread" + wait + (evidence.lockHolder.map { ", held by thread \($0)" } ?? "")
    case .io: "it waited for input or output" + wait
    case .sleep: "it slept" + wait
    case .starved: "it was ready to run and got no processor"
    case .fault: "it waited for memory to be read from disk"
    case .unknown: "the cause is not known" + wait
    }
  }

  /// What a thread was seen doing at one moment, as a cause.
  ///
  /// A running thread that spent most of the observed time waiting for a processor was starved. Below 10 ms of
  /// observation the shares say nothing.
  static func cause(
    of activity: ThreadProbe.Activity, cpu: UInt64?, runDelay: UInt64?, majorFaults: UInt64?, observed: UInt64?
  ) -> Cause {
    switch activity {
    case .unknown: return .unknown
    case .blocked(let call):
      // Outside a system call a thread waits for a page; that it was read from disk is what the fault count says.
      if call.number < 0 { return (majorFaults ?? 0) > 0 ? .fault : .unknown }
      return SystemCall(call).cause
    case .running:
      guard let cpu, let runDelay, let observed, observed >= 10_000_000 else { return .running }
      return runDelay > observed / 2 && cpu < runDelay ? .starved : .running
    }
  }
}
