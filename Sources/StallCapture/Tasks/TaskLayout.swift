import CLinux
import CUnwind
import StallReport
import Synchronization

/// Where the runtime of Swift concurrency keeps what is read of a task, if a self-test has found it.
package struct TaskLayout: Sendable {
  /// The process whose tasks are read.
  let process: ProcessHandle
  /// Where a thread has its current task.
  package let currentTaskWord: CurrentTaskWord
  /// The first word of each task: its class.
  let taskClass: UInt64
  /// Where a task has the header of the memory that it allocated last.
  ///
  /// The header is two words. The first leads to the header before it. The memory follows.
  let lastAllocation: UInt64
  /// The module that has the runtime: a task's outermost function returns to code in it.
  let runtime: Range<UInt64>

  /// Where a task's name is, if that is known.
  let name: TaskNamePlace?
  /// Where a task has its priority, if that is known.
  let priority: TaskPriorityPlace?
  /// Where a thread has the actor that it runs for, if that is known.
  let actor: ActorPlace?
  /// Where a task continues after a yield.
  let yieldPlace = YieldPlace()

  // swift/ABI/Task.h: a job's flags and id, and where the task continues. The self-test compares all but `resumeFunction`.
  static let flags: UInt64 = 32
  static let id: UInt64 = 36
  static let resumeFunction: UInt64 = 56
  static let resumeContext: UInt64 = 64
  /// The size of an allocation's header.
  static let headerSize: UInt64 = 16
  /// The bit of the flags that a child task has.
  static let childFlag: UInt32 = 1 << 24
  /// How much of a task is searched.
  private static let searchedSize: UInt64 = 512

  /// Runs the self-test in the own process, on a thread that is prepared to read memory; nil if the layout is not the expected one.
  init?(testedIn process: ProcessHandle) {
    guard let word = CurrentTaskWord.find(in: process) else { return nil }
    let findings = Findings(in: process)
    guard let probe = ProbeTask(body: { await Self.outer($0, findings) }) else { return nil }
    guard let facts = withExtendedLifetime(probe, { findings.facts.withLock { $0 } }) else { return nil }
    self.process = process
    (currentTaskWord, taskClass) = (word, facts.taskClass)
    (lastAllocation, runtime) = (facts.lastAllocation, facts.runtime)
    name = TaskNamePlace(testedIn: process)
    priority = TaskPriorityPlace(testedIn: process)
    actor = ActorPlace.find(near: word, in: process)
    if !Self.needsServicesThreadForYield { yieldPlace.find(in: process) }
  }

  /// What the self-test has found.
  private struct Facts {
    var taskClass: UInt64
    var lastAllocation: UInt64
    var runtime: Range<UInt64>
  }

  private final class Findings: Sendable {
    let facts = Mutex<Facts?>(nil)
    let process: ProcessHandle

    init(in process: ProcessHandle) { self.process = process }
  }

  // Two functions, so that the task has contexts other than its first one.
  @inline(never)
  private static func outer(_ task: UInt64, _ findings: Findings) async {
    await inner(task, findings)
    // Something to do after the call, so that it is one.
    findings.facts.withLock { if $0?.taskClass == 0 { $0 = nil } }
  }

  @inline(never)
  private static func inner(_ task: UInt64, _ findings: Findings) async {
    let facts = search(task, in: findings.process)
    findings.facts.withLock { $0 = facts }
  }

  /// Compares the running task with the expected layout.
  private static func search(_ task: UInt64, in process: ProcessHandle) -> Facts? {
    func word(_ address: UInt64) -> UInt64? { process.load(address, as: UInt64.self) }
    // Before this task has allocated anything else, its last allocation is this function's caller's or own context.
    guard let offset = findLastAllocation(of: task, in: process), let taskClass = word(task), taskClass != 0,
      let header = word(task + offset), let number = process.load(task + id, as: UInt32.self),
      number == UInt32(truncatingIfNeeded: clinux_task_id(task)),
      let bits = process.load(task + flags, as: UInt32.self), bits & (0xff | childFlag) == 0,
      let first = word(task + resumeContext)
    else { return nil }
    var context = header + headerSize
    var depth = 0
    while let (parent, resume) = process.load(context, as: (UInt64, UInt64).self), depth < 16 {
      depth += 1
      guard cunwind_is_continuation(process.cunwind, resume) else { return nil }
      if parent == 0 {
        guard depth > 2, context == first, let runtime = module(at: resume, in: process) else { return nil }
        return Facts(taskClass: taskClass, lastAllocation: offset, runtime: runtime)
      }
      context = parent
    }
    return nil
  }

  /// Allocates and frees, and looks for the word of the task that follows.
  private static func findLastAllocation(of task: UInt64, in process: ProcessHandle) -> UInt64? {
    var candidates = Array(stride(from: UInt64(0), to: searchedSize, by: 8))
    func keep(where header: UInt64) {
      candidates.removeAll { process.load(task + $0, as: UInt64.self) != header }
    }
    guard let one = clinux_task_allocate(48) else { return nil }
    defer { clinux_task_free(one) }
    let oneHeader = UInt64(UInt(bitPattern: one)) - headerSize
    keep(where: oneHeader)
    guard let two = clinux_task_allocate(80) else { return nil }
    let twoHeader = UInt64(UInt(bitPattern: two)) - headerSize
    keep(where: twoHeader)
    let link = process.load(twoHeader, as: UInt64.self)
    clinux_task_free(two)
    keep(where: oneHeader)
    return candidates.count == 1 && link == oneHeader ? candidates[0] : nil
  }

  private static func module(at address: UInt64, in process: ProcessHandle) -> Range<UInt64>? {
    var module = cunwind_module()
    guard cunwind_find_module(process.cunwind, address, &module), module.start <= address, address < module.end
    else { return nil }
    return module.start..<module.end
  }
}
