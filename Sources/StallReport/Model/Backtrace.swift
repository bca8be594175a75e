/// A thread's call stack as addresses, innermost first, with what the thread was doing then.
package struct Backtrace: Sendable, Equatable {
  /// A code address on the stack.
  package struct Frame: Sendable, Hashable {
    /// The instruction about to run, or a return address.
    package var address: UInt64
    package var isReturnAddress: Bool
    /// It is not on the stack: where a function continues that waits for an asynchronous call.
    package var isAsync = false

    package init(address: UInt64, isReturnAddress: Bool) {
      self.address = address
      self.isReturnAddress = isReturnAddress
    }

    /// A function that waits, which continues at `address`.
    package init(asyncCaller address: UInt64) {
      self.init(address: address, isReturnAddress: false)
      isAsync = true
    }

    /// The address whose symbol and line the frame has: a return address belongs to the call before it.
    package var lookupAddress: UInt64 { isReturnAddress ? address - 1 : address }
  }

  /// The calls on the stack, and then the functions that wait for them.
  package var frames: [Frame]
  /// A frame was found by scanning the stack, or read after the thread had gone on, and may be wrong.
  package var isApproximate = false
  /// Outer frames are missing.
  package var isTruncated = false
  /// The outermost function is that of a child task: who waits for it belongs to the task's parent.
  package var isChildTask = false
  /// How it was taken.
  package var method: CaptureMethod?

  package init(
    frames: [Frame], isApproximate: Bool = false, isTruncated: Bool = false, isChildTask: Bool = false,
    method: CaptureMethod? = nil
  ) {
    self.frames = frames
    self.isApproximate = isApproximate
    self.isTruncated = isTruncated
    self.isChildTask = isChildTask
    self.method = method
  }
}

/// Why there is no backtrace.
package enum CaptureFailure: String, Sendable, Error {
  case turnEnded = "the turn ended before the stack could be taken"
  case threadEnded = "the thread has ended"
  case insideCall = "the thread is inside a system call, and a signal would cut it short"
  case notPrepared =
    "the thread runs, perf events are not permitted here, and it was not prepared for the capture signal"
  case noActivity = "the kernel does not tell whether the thread is blocked (no /proc/self/task/TID/syscall)"
  case moving = "the thread would not stand still while its stack was read"
  case noProcessor = "the thread is ready to run and got no processor while it was looked at"
  case signalBlocked = "the thread runs with the capture signal blocked"
  case noAnswer = "the thread runs but gave no sample in time"
  case refused = "the kernel refused to sample the thread"
  case pending = "the thread runs and has not answered an earlier capture signal yet"
  case noSignal = "no real-time signal was free for capturing"
  case busy = "an earlier capture is still under way"
  case noServer = "no thread serves the loop"
  case unknownServer = "which thread serves the loop is not known"
  case serverChanged = "another thread served the loop when the stack had been taken"
  case noMemory = "there was no memory for it when the turn was found to be late"
  case notWanted = "the thread runs, and the agent's settings have running threads not sampled (captures: blocked-only)"
  case noUnwinder = "libunwind is not installed"
  // As the C code says it.
  case unknownUnwinder = "libunwind does not read unwind tables as its versions 1.3 to 1.8 do"
  case unknownArchitecture = "there are no stacks on this architecture"
  case shortCallouts = "the callouts that were met had not lasted for half of the threshold"
  case severalJobs =
    "the thread may have run several jobs of an actor one after the other, and which one took long is not known"
  case noCommonFunction = "no function was met by more than half of the samples"
}

/// How a stack was taken.
package enum CaptureMethod: String, Sendable, CaseIterable {
  /// Read from a thread that is blocked in the kernel.
  case procfs
  /// A perf event's sample of a thread that runs.
  case perf
  /// Copied by the thread itself in a signal handler, at a moment at which it runs its own code.
  case timer
}
