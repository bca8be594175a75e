extension Report {
  /// Another thread that matters to the stall.
  package struct OtherThread: Sendable {
    /// Why it is included, in the order of the report.
    package enum Role: String, Sendable, Comparable, CaseIterable {
      /// It is waited for.
      case lockHolder = "lock_holder"
      /// It runs.
      case running
      /// It is blocked.
      case other

      package static func < (a: Role, b: Role) -> Bool { allCases.firstIndex(of: a)! < allCases.firstIndex(of: b)! }
    }

    package var id: Int32
    package var name: String?
    package var role: Role
    /// `running`, or the call that it is waiting in, in words.
    package var state: String?
    package var stack: [StackFrame]
    /// How the stack was taken.
    package var captureMethod: CaptureMethod?
    package var isApproximate = false
    package var isTruncated = false
    /// The stack ends where a child task begins.
    package var isChildTask = false
    /// Why there is no stack.
    package var captureFailure: CaptureFailure?

    package init(
      id: Int32, name: String? = nil, role: Role, state: String? = nil, stack: [StackFrame],
      captureMethod: CaptureMethod? = nil, isApproximate: Bool = false, isTruncated: Bool = false,
      captureFailure: CaptureFailure? = nil
    ) {
      self.id = id
      self.name = name
      self.role = role
      self.state = state
      self.stack = stack
      self.captureMethod = captureMethod
      self.isApproximate = isApproximate
      self.isTruncated = isTruncated
      self.captureFailure = captureFailure
    }

    /// The object as the report has it, with all of its frames.
    package var json: JSONWriter {
      var object = head
      object.array("stack", stack.map(\.json))
      return object
    }

    /// The object's members without its stack.
    package var head: JSONWriter {
      var object = JSONWriter()
      object.member("id", id)
      object.member("name", name)
      object.member("role", role.rawValue)
      object.member("state", state?.limited(to: 200))
      object.capture(
        method: captureMethod, isApproximate: isApproximate, isTruncated: isTruncated,
        isChildTask: isChildTask, failure: captureFailure)
      return object
    }
  }
}
