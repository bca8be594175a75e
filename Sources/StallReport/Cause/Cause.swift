/// Why a loop was blocked.
package enum Cause: String, Sendable, CaseIterable {
  /// It ran on a CPU.
  case running
  /// It waited for another thread or process: a lock, a condition, a semaphore, the end of a child.
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
  /// A debugger stopped its thread, or the whole process was stopped by a signal or a debugger, frozen with its control group, or suspended
  /// with the machine.
  case stopped
  /// The evidence is not sufficient.
  case unknown
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
