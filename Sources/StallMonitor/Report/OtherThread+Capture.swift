import StallCapture
import StallReport

extension Report.OtherThread {
  /// A thread as it was met.
  init(id: Int32, name: String? = nil, snapshot: ThreadSnapshot, role: Role, _ reader: FrameReader) {
    self.init(id: id, name: name ?? ProcessHandle.own.name(of: id), role: role, stack: [])
    switch snapshot.backtrace {
    case .success(let backtrace):
      (captureMethod, isApproximate, isTruncated) = (backtrace.method, backtrace.isApproximate, backtrace.isTruncated)
      isChildTask = backtrace.isChildTask
      stack = reader.frames(of: backtrace)
    case .failure(let failure): captureFailure = failure
    }
    if snapshot.activity == .running { state = "running" }
  }

  /// A thread that a sweep has met.
  init(_ finding: ThreadSweep.Finding, _ reader: FrameReader) {
    self.init(
      id: finding.id, name: finding.name, snapshot: finding.snapshot,
      role: finding.snapshot.activity == .running ? .running : .other, reader)
    state = state ?? finding.wait
  }
}
