import StallCapture
import StallReport

extension Episode {
  /// What a loop's thread was doing at one moment of the stall.
  struct Sample {
    /// Whose stack it is; nil if no thread served the loop.
    var thread: Int32?
    var threadName: String?
    var activity: ThreadProbe.Activity
    var cause: Cause
    /// What it waited in, in words.
    var wait: String?
    /// What it waited for, if `lockHolder` is nil.
    var waitedFor: WaitedFor?
    /// The stack; empty if it could not be taken.
    var stack: [StackFrame]
    /// The threads that it may wait for, until names show whether that is so.
    var chain: WaitChain?
    /// Whose threads `threads` are to be, of those that were met.
    var pool: WorkerPool?
    /// How many runs of Foundation's loop were known; nil if others are no concern.
    var knownRuns: Int?
    /// How the stack was taken.
    var method: CaptureMethod?
    var isApproximate = false
    var isTruncated = false
    var isChildTask = false
    var failure: CaptureFailure?
    var mode: String?
    var callout: String?
    /// Which callout of the turn it met, from 1; 0 if that is not known.
    var calloutNumber: UInt64 = 0
    /// Threads that matter to it: those that are waited for first.
    var threads: [Report.OtherThread] = []
    /// Threads that are missing because the time limit was reached.
    var threadsLeftOut = 0
    /// Whether all requested threads were captured, and not only lock holders.
    var isSweep = false
    /// The task that ran, if the loop is a thread of the task pool.
    var task: Report.TaskState?
    /// Other tasks waited for a thread.
    var starves = false
    var lockHolder: LockHolder?
    var deadlock: [Int32] = []

    /// Time of the stall of which no sample shows what the thread did.
    static func unseen(_ cause: Cause) -> Sample {
      Sample(thread: nil, activity: .unknown, cause: cause, stack: [], failure: .notSampled)
    }

    /// The thread that it waits for, as far as that is known.
    var holder: Int32? { lockHolder?.thread ?? chain?.holder }

    /// What identifies the responsible function.
    var functionKey: String {
      failure == .notSampled ? "not sampled" : Culprit.frame(of: stack)?.functionKey ?? ""
    }

    /// Whether the thread was ready to run, and did not wait; nil if that is not known.
    var isReady: Bool? {
      switch activity {
      case .running: true
      case .blocked: false
      case .unknown: nil
      }
    }

    /// The same without evidence for a responsible function.
    func withoutFunction(_ failure: CaptureFailure) -> Sample {
      Sample(
        thread: thread, threadName: threadName, activity: .unknown, cause: .unknown, stack: [], failure: failure,
        mode: mode, starves: starves)
    }

    /// Notes how the stack was taken, and what is uncertain of it.
    mutating func note(_ backtrace: Backtrace) {
      isApproximate = backtrace.isApproximate
      isTruncated = backtrace.isTruncated
      isChildTask = backtrace.isChildTask
      method = backtrace.method
    }

    /// Notes why there is no stack.
    mutating func note(_ failure: CaptureFailure) {
      self.failure = failure
      switch failure {
      case .noProcessor: cause = .starved
      case .stopped: (cause, wait) = (.stopped, "stopped by a debugger or another tracer")
      default: break
      }
    }
  }

  /// What is kept of a sample beside its stack.
  struct SampleSummary {
    /// The time since the turn began, and the part of the stall that the sample represents, in
    /// nanoseconds.
    var after: UInt64
    var weight: UInt64
    var cause: Cause
    var wait: String?
    /// Where its stack ends in the tree.
    var node: Int?
    var failure: CaptureFailure?
  }
}
