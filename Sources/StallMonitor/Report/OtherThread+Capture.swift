import StallCapture
import StallReport

extension Report.OtherThread {
  /// A thread as it was met, without its stack.
  init(id: Int32, name: String? = nil, moment: ThreadCapture.Moment, role: Role) {
    self.init(id: id, name: name ?? ThreadProbe.name(thread: id), role: role, stack: [])
    switch moment.backtrace {
    case .success(let backtrace):
      (captureMethod, isApproximate, isTruncated) = (backtrace.method, backtrace.isApproximate, backtrace.isTruncated)
    case .failure(let failure): captureFailure = failure
    }
    if moment.activity == .running { state = "running" }
  }

  /// A thread that a sweep has met, with its frames named until `deadline`.
  init(_ finding: ThreadSweep.Finding, resolver: FrameResolver, deadline: UInt64) {
    self.init(
      id: finding.id, name: finding.name, moment: finding.moment,
      role: finding.moment.activity == .running ? .running : .other)
    state = state ?? finding.wait
    if case .success(let backtrace) = finding.moment.backtrace {
      stack = resolver.resolve(backtrace, deadline: deadline)
    }
  }
}
