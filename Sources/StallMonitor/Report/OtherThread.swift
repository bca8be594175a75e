extension StallReport {
  /// Another thread that matters to the stall.
  struct OtherThread: Sendable {
    /// Why it is told, in the order of the report.
    enum Role: String, Sendable, Comparable, CaseIterable {
      /// It is waited for.
      case lockHolder = "lock_holder"
      /// It runs.
      case running
      /// It stands still.
      case other

      static func < (a: Role, b: Role) -> Bool { allCases.firstIndex(of: a)! < allCases.firstIndex(of: b)! }

      /// Its weight when room is shared.
      var share: Int { self == .lockHolder ? 4 : 1 }
    }

    var id: Int32
    var name: String?
    var role: Role
    /// `running`, or what it stands still in, in words.
    var state: String?
    var stack: [StackFrame]
    /// How the stack was taken.
    var captureMethod: CaptureMethod?
    var isApproximate = false
    var isTruncated = false
    /// Why there is no stack.
    var captureFailure: CaptureFailure?

    /// The object as the report has it, with these of its frames.
    func json(frames: [JSONLine]) -> JSONLine {
      var object = JSONLine()
      object.member("id", id)
      object.member("name", name)
      object.member("role", role.rawValue)
      object.member("state", state?.limited(to: 200))
      object.capture(
        method: captureMethod, isApproximate: isApproximate, isTruncated: isTruncated, failure: captureFailure)
      object.array("stack", frames)
      return object
    }

    /// The room that it takes without frames.
    var headSize: Int { json(frames: []).bytes.count + 3 }
  }
}

extension StallReport.OtherThread {
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
