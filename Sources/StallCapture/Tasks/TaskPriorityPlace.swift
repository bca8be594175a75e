import Synchronization

/// Where a task has its priority as it is now.
///
/// A job's flags keep the priority that it was enqueued with: an escalation does not change them, and a task that began at once was
/// never enqueued.
struct TaskPriorityPlace: Sendable, Equatable {
  /// The distance from the task's beginning to the byte.
  let offset: UInt64

  /// How much of a task is searched.
  private static let searchedSize: UInt64 = 512

  /// Finds it with a task of its own, whose priority it raises; nil unless one place alone follows.
  init?(testedIn process: ProcessHandle) {
    let findings = Findings()
    let probe = ProbeTask { task in
      #if compiler(>=6.2)
      var offsets = Array(stride(from: UInt64(0), to: Self.searchedSize, by: 4))
      var seen: Set<UInt8> = []
      for rawValue: UInt8 in [0x19, 0x21, 0x23] {
        withUnsafeCurrentTask { $0?.escalatePriority(to: TaskPriority(rawValue: rawValue)) }
        let priority = Task.currentPriority.rawValue
        seen.insert(priority)
        offsets.removeAll { process.load(task + $0, as: UInt8.self) != priority }
      }
      if seen.count > 1, offsets.count == 1 { findings.offset.withLock { [offsets] in $0 = offsets[0] } }
      #endif
    }
    guard probe != nil, let offset = findings.offset.withLock({ $0 }) else { return nil }
    self.offset = offset
  }

  private final class Findings: Sendable {
    let offset = Mutex<UInt64?>(nil)
  }

  /// The priority of a task (`TaskPriority.rawValue`), or nil if it cannot be read.
  func priority(of task: UInt64, in process: ProcessHandle) -> UInt8? { process.load(task &+ offset, as: UInt8.self) }
}
