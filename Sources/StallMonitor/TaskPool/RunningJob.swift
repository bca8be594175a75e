import CUnwind
import StallCapture
import StallReport

/// What a thread runs of a task, found from outside: one piece of it, without a suspension since then.
///
/// All on the watchdog's thread.
final class RunningJob {
  private let threadPointer: UInt64
  private let layout: TaskLayout
  private let change: Breakpoint
  private let yield: Breakpoint?
  private let probe: ThreadProbe
  private let processorTime: UInt64?
  /// Nanoseconds on a processor that no job of the runtime's own needs.
  static let work: UInt64 = 200_000

  /// Nil if the thread runs no task, or if its next task could not be noticed.
  init?(of thread: Int32) {
    // The watch needs a descriptor, and the service's numbers are the service's. Under a filter no call is tried that it may not know.
    guard OwnThreads.isApart, cunwind_perf_is_permitted(), let layout = ProcessHandle.own.taskLayout,
      let pointer = ThreadPointer.of(thread: thread, in: .own),
      let change = Breakpoint.change(ofTaskOn: thread, threadPointer: pointer, layout: layout),
      layout.runningTask(threadPointer: pointer) != nil
    else { return nil }
    // A processor has few: the other one may have been the last.
    let yield = Breakpoint.yield(on: thread)
    if yield == nil, Breakpoint.canMarkYields { return nil }
    (threadPointer, self.layout) = (pointer, layout)
    (self.change, self.yield) = (change, yield)
    probe = ThreadProbe(thread: thread, of: .own)
    processorTime = probe.processorTime()
  }

  /// Whether the job still runs.
  var isLasting: Bool { !change.isHit && yield?.isHit != true }

  /// Whether it has been on a processor since it was met, for longer than a short job that a busy machine keeps from it.
  var hasComputed: Bool {
    guard let processorTime, let now = probe.processorTime() else { return true }
    return now &- processorTime >= Self.work
  }

  /// Whether it waits in a system call now.
  var isBlocked: Bool {
    guard case .blocked(let call) = probe.activity() else { return false }
    return call.number >= 0
  }

  /// What a report has of the task; nil if it does not run any more.
  var state: Report.TaskState? { layout.runningTask(threadPointer: threadPointer).map(Report.TaskState.init) }
}

extension Report.TaskState {
  init(_ task: RunningTask) {
    self.init(id: task.id, name: task.name, priority: task.priority, actor: task.actor)
  }
}
