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
  /// A frame was found by scanning the stack, or read after the thread had continued, and may be
  /// wrong.
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
  case turnEnded = "the turn ended before the stack could be captured"
  case threadEnded = "the thread has ended"
  case insideCall = "the thread is inside a system call, and a signal would cut it short"
  case notPrepared =
    "the thread is running, perf events are not permitted, and the thread is not prepared for the capture signal"
  case noActivity =
    "the kernel does not show whether the thread is blocked (/proc/self/task/TID/syscall cannot be read)"
  case stopped = "a debugger or another tracer, or a signal, has stopped the thread"
  case noSignalState =
    "the thread is running, and the kernel does not show which signals it blocks (/proc/self/task/TID/status cannot be read)"
  case moving = "the thread kept running while its stack was being read"
  case noProcessor = "the thread was ready to run, but no CPU was available during the capture"
  case signalBlocked = "the thread runs with the capture signal blocked"
  case noAnswer = "the thread is running but returned no sample in time"
  case refused = "the kernel refused to sample the thread"
  case pending = "the thread is running and has not yet handled an earlier capture signal"
  case noSignal = "no real-time signal is free for captures"
  case noTimer =
    "perf events are not permitted, and the kernel has no timer for a thread's processor time, or refuses it"
  case busy = "an earlier capture is still in progress"
  case noServer = "no thread serves the loop"
  case unknownServer = "the thread that serves the loop is not known"
  case serverChanged = "another thread served the loop by the time the stack was captured"
  case noRoom = "too many stalls were waiting for the names of their functions"
  case noMemory = "no memory was available for the stack when the turn was found late"
  case notWanted = "the thread is running, and the agent's settings exclude running threads (captures: blocked-only)"
  case noUnwinder = "libunwind could not be loaded"
  // As the C code says it.
  case unknownUnwinder = "libunwind does not read unwind tables as its versions 1.3 to 1.8 do"
  case unreadableMemory = "the process cannot read its own memory (no /proc/self/mem)"
  case unknownArchitecture = "there are no stacks on this architecture"
  case noGlibc = "stacks are captured with glibc only"
  case shortCallouts = "no sampled callout is known to have taken half of the threshold"
  case severalJobs =
    "the thread may have run several jobs of an actor in sequence, and the slow one is not known"
  case notSampled = "most of its time was between samples, or before the first one"
  case noCommonFunction = "no function is in more than half of the samples"
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
