import StallReport

/// What a thread was doing, and its stack, whose frames are in the capture's buffer until the next capture.
package struct BufferedSnapshot {
  package var activity: ThreadProbe.Activity
  package var outcome: BufferedOutcome
  package var method: CaptureMethod?
  /// Of a blocked thread: ``ThreadProbe/runCount()``.
  package var runCount: UInt64?

  package init(_ activity: ThreadProbe.Activity, _ failure: CaptureFailure) {
    self.activity = activity
    outcome = .failure(failure)
  }

  package init(
    _ activity: ThreadProbe.Activity, _ stack: BufferedStack, _ method: CaptureMethod, runCount: UInt64? = nil
  ) {
    self.activity = activity
    outcome = stack.failure.map { .failure($0) } ?? .stack(stack)
    self.method = method
    self.runCount = runCount
  }
}

/// A stack in the buffer, or why there is none.
package enum BufferedOutcome {
  case stack(BufferedStack)
  case failure(CaptureFailure)
}

/// A stack in the buffer.
package struct BufferedStack {
  package var count = 0
  package var isApproximate = false
  package var isTruncated = false
  /// Memory outside of the copy was read during the unwinding.
  var readLive = false
  /// Outer frames are lost behind memory or code that may have changed since.
  var isCutShort = false
  /// Who waits for what the thread runs, if it runs a task.
  var asyncCallers: AsyncCallers?
  package var failure: CaptureFailure?
}

/// What a thread was doing, and its stack or why there is none.
package struct ThreadSnapshot {
  package var activity: ThreadProbe.Activity
  package var backtrace: Result<Backtrace, CaptureFailure>
  /// Of a blocked thread: ``ThreadProbe/runCount()``.
  package var runCount: UInt64?
}
