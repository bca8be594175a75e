import StallCapture
import StallReport

extension ThreadBacktrace {
  init(_ thread: Report.OtherThread) {
    self.init(
      threadID: thread.id, name: thread.name, isRunning: thread.role == .running,
      wait: thread.role == .running ? nil : thread.state, frames: thread.stack.map(Frame.init),
      isApproximate: thread.isApproximate, isTruncated: thread.isTruncated, isChildTask: thread.isChildTask,
      failure: thread.captureFailure?.rawValue)
  }

  /// A thread that was not captured.
  init(threadID: Int32, failure: String) {
    self.init(
      threadID: threadID, name: ProcessHandle.own.name(of: threadID), isRunning: false, wait: nil, frames: [],
      isApproximate: false,
      isTruncated: false, isChildTask: false, failure: failure)
  }
}

extension ThreadBacktrace.Frame {
  init(_ frame: StackFrame) {
    self.init(
      symbol: frame.symbol, file: frame.file, line: frame.line, isInlined: frame.isInlined, isAsync: frame.isAsync,
      module: frame.module,
      buildID: frame.buildID, offset: frame.offset)
  }
}
