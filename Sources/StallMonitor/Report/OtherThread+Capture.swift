import StallCapture
import StallReport

extension Report.OtherThread {
  /// A thread as it was met, without its stack.
  init(id: Int32, name: String? = nil, snapshot: ThreadSnapshot, role: Role) {
    self.init(id: id, name: name ?? OwnProcess().name(of: id), role: role, stack: [])
    switch snapshot.backtrace {
    case .success(let backtrace):
      (captureMethod, isApproximate, isTruncated) = (backtrace.method, backtrace.isApproximate, backtrace.isTruncated)
      isChildTask = backtrace.isChildTask
    case .failure(let failure): captureFailure = failure
    }
    if snapshot.activity == .running { state = "running" }
  }

  /// A thread that a sweep has met, with its frames named until `deadline`.
  init(_ finding: ThreadSweep.Finding, resolver: FrameResolver, deadline: UInt64) {
    self.init(
      id: finding.id, name: finding.name, snapshot: finding.snapshot,
      role: finding.snapshot.activity == .running ? .running : .other)
    state = state ?? finding.wait
    if case .success(let backtrace) = finding.snapshot.backtrace {
      stack = resolver.resolve(backtrace, deadline: deadline)
    }
  }
}
