import CLinux
import CUnwind
import StallCapture
import StallReport
import Synchronization

/// One thread of the task pool, as its jobs stamp it.
///
/// Made on the thread, before its first job. The place that C stamps holds a reference until the thread ends or another monitor takes it over.
final class TaskThread: @unchecked Sendable {  // `place` is C's, whose words are atomic; the rest is constant.
  private let pool: TaskPool
  private let place: UnsafeMutablePointer<clinux_task_thread>
  private let publication: LoopPublication
  private let id = clinux_gettid()
  private let threadPointer = UInt64(clinux_thread_pointer())
  // Of the watchdog.
  private var pieces: JobPieces

  init(of pool: TaskPool, at place: UnsafeMutablePointer<clinux_task_thread>) {
    self.pool = pool
    self.place = place
    publication = pool.watch.makePublication()
    pieces = JobPieces(of: id, threadPointer: threadPointer)
  }

  /// Has the thread's jobs stamp the pulse, and the watchdog watch it.
  func begin() {
    let earlier = place.pointee.stamp.context
    place.pointee.stamp = pulse.turnStamp()
    place.pointee.stamp.context = Unmanaged.passRetained(self).toOpaque()
    place.pointee.stamp.owner = id
    place.pointee.stamp.answer = { Unmanaged<TaskThread>.fromOpaque($0!).takeUnretainedValue().pulse.answer() }
    if let earlier { Unmanaged<TaskThread>.fromOpaque(earlier).release() }
    _ = cunwind_prepare_thread()
    ThreadEnd.notify(self)
    pool.watch.list.watch(
      pool.watch.subject(
        .init(id: id, stackEnd: UInt64(clinux_own_stack_end()), isWorker: true), publication: publication, work: self))
    // Last: from here on jobs are stamped.
    place.pointee.monitor = pool.identity
  }

  private var pulse: Pulse { publication.pulse }

  // MARK: The watchdog's side

  private var flags: UInt32 { clinux_task_thread_flags(place) }
  private var priority: TaskPriorityClass { TaskPriorityClass(rawValue: clinux_task_thread_priority(place)) ?? .medium }
}

extension TaskThread: TurnWork {
  var leastThreshold: UInt64 { priority.isLow ? pool.watch.backgroundThreshold : 0 }

  var hasPieces: Bool { true }

  func meet(_ turn: Pulse.Word, isShort: Bool) { pieces.meet(turn, runsOneTask: runsOneTask, isShort: isShort) }

  func rest() { pieces.rest() }

  var part: TurnPart { pieces.part() }

  /// Whether the job is a task, and not an actor that runs what is queued on it.
  private var runsOneTask: Bool { flags & UInt32(CLINUX_TASK_KIND_MASK) == UInt32(CLINUX_TASK_KIND_TASK) }

  func permit(perfEvents: Bool) { pieces.permit(perfEvents: perfEvents) }

  func finish() { pieces.permit(perfEvents: false) }

  var hasWaitingWork: Bool { TaskPool.hasWaitingJobs(of: priority) }

  var task: Report.TaskState? {
    let state = Report.TaskState(priority: UInt8(flags >> 8 & 0xff))
    guard let layout = ProcessHandle.own.taskLayout else { return state }
    var known = layout.runningTask(threadPointer: threadPointer)
    // A job that is a task may run others within itself: executors do, and `Task.immediate`. It is the one that holds the thread.
    if runsOneTask, known?.address != clinux_task_thread_job(place) {
      known = layout.task(at: clinux_task_thread_job(place))
    }
    return known.map(Report.TaskState.init) ?? state
  }
}

extension TaskThread: ThreadEndObserver {
  // A thread that took the place over has stamped its own context there.
  var isWatching: Bool { place.pointee.stamp.context == Unmanaged.passUnretained(self).toOpaque() }

  func threadEnds() {
    guard isWatching else { return }
    pulse.idle()
    if pool.isWatching { pool.watch.list.forget(pulse) }
    place.pointee.stamp = clinux_turn_stamp()
    clinux_task_thread_release(place)
    pool.threadEnds()
    Unmanaged.passUnretained(self).release()
  }
}
