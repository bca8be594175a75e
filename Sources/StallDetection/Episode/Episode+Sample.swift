import StallReport

extension Episode {
  /// What a loop's thread was doing at one moment of the stall.
  package struct Sample: Sendable {
    /// Whose stack it is; nil if no thread served the loop.
    package var thread: Int32?
    package var threadName: String?
    package var activity: ThreadActivity
    /// Why it was late at this moment; the episode decides it when the sample is added.
    package private(set) var cause: Cause
    /// What it waited in, in words.
    package var wait: String?
    /// What it waited for, if `lockHolder` is nil.
    package var waitedFor: WaitedFor?
    /// The stack; empty if it could not be taken.
    package var stack: [StackFrame]
    /// The threads that it may wait for, until names show whether that is so.
    package var chain: WaitChain?
    /// Whose threads `threads` are to be, of those that were met.
    package var pool: WorkerPool?
    /// How many runs of Foundation's loop were known; nil if others are no concern.
    package var knownRuns: Int?
    /// How the stack was taken.
    package var method: CaptureMethod?
    package var isApproximate = false
    package var isTruncated = false
    package var isChildTask = false
    package var failure: CaptureFailure?
    package var mode: String?
    package var callout: String?
    /// Which callout of the turn it met, from 1; 0 if that is not known.
    package var calloutNumber: UInt64 = 0
    /// Threads that matter to it: those that are waited for first.
    package var threads: [Report.OtherThread] = []
    /// Threads that are missing because the time limit was reached.
    package var threadsLeftOut = 0
    /// Whether all requested threads were captured, and not only lock holders.
    package var isSweep = false
    /// The task that ran, if the loop is a thread of the task pool.
    package var task: Report.TaskState?
    /// Other tasks waited for a thread.
    package var starves = false
    package var lockHolder: LockHolder?
    package var deadlock: [Int32] = []

    /// A sample of `thread`; nil if no thread served the loop.
    package init(
      thread: Int32? = nil, activity: ThreadActivity, stack: [StackFrame], failure: CaptureFailure? = nil
    ) {
      (self.thread, self.activity, self.stack, self.failure) = (thread, activity, stack, failure)
      cause = StallEvidence(activity: activity, failure: failure).cause
    }

    /// Time of the stall of which no sample shows what the thread did.
    package static func unseen(_ cause: Cause) -> Sample {
      var sample = Sample(activity: .unknown, stack: [], failure: .notSampled)
      sample.cause = cause
      return sample
    }

    /// The thread that it waits for, as far as that is known.
    package var holder: Int32? { lockHolder?.thread ?? chain?.holder }

    /// What identifies the responsible function.
    package var functionKey: String {
      failure == .notSampled ? "not sampled" : Culprit.frame(of: stack)?.functionKey ?? ""
    }

    /// Whether the thread was ready to run, and did not wait; nil if that is not known.
    package var isReady: Bool? { activity.isReady }

    /// Decides the cause of this moment; `usage` is what was counted in the turn up to it.
    package mutating func judge(_ usage: ResourceUsage?) {
      cause = StallEvidence(activity: activity, failure: failure, usage: usage).cause
    }

    /// The same without evidence for a responsible function.
    package func withoutFunction(_ failure: CaptureFailure) -> Sample {
      var sample = Sample(thread: thread, activity: .unknown, stack: [], failure: failure)
      (sample.threadName, sample.mode, sample.starves) = (threadName, mode, starves)
      return sample
    }

    /// Notes how the stack was taken, and what is uncertain of it.
    package mutating func note(_ backtrace: Backtrace) {
      isApproximate = backtrace.isApproximate
      isTruncated = backtrace.isTruncated
      isChildTask = backtrace.isChildTask
      method = backtrace.method
    }

    /// Notes why there is no stack.
    package mutating func note(_ failure: CaptureFailure) {
      self.failure = failure
      if failure == .stopped { wait = "stopped by a debugger or another tracer" }
    }
  }

  /// What is kept of a sample beside its stack.
  package struct SampleSummary: Sendable {
    /// The time since the turn began, and the part of the stall that the sample represents, in
    /// nanoseconds.
    package var after: UInt64
    package var weight: UInt64
    package var cause: Cause
    package var wait: String?
    /// Where its stack ends in the tree.
    package var node: Int?
    package var failure: CaptureFailure?
  }
}
