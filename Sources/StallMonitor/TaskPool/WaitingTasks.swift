import CLinux
import StallCapture
import StallDetection
import StallReport

/// Watches whether Swift concurrency has a thread free, where jobs are stamped: tasks of the default priority that no thread takes.
///
/// Its turn is a time in which tasks wait and none begins: it begins when a check first meets the pool so, and ends as a task begins, on that
/// task's thread. All else is on the watchdog's thread. It enqueues nothing.
final class WaitingTasks: @unchecked Sendable {  // Used by the watchdog alone, but for what is constant.
  private let pulse: Pulse
  private let tasks: TaskPool
  private let workers: WorkerDiscovery
  private var isHooked = true
  // What had begun when tasks were first met that wait, and when that was.
  private var last: (begun: UInt64, stamp: UInt64)?

  init(_ pool: TaskPool, pulse: Pulse) {
    (tasks, self.pulse) = (pool, pulse)
    workers = WorkerDiscovery(pool.watch, wakesWatchdog: false)
  }

  private var begun: UInt64 { clinux_task_pool_begun(TaskPriorityClass.medium.rawValue) }

  private var areWaiting: Bool { TaskPool.hasWaitingJobs(of: .medium) }
}

extension WaitingTasks: HeartbeatSource {
  var isBeating: Bool { true }

  /// Whether tasks wait, or threads are to be scanned.
  var isDue: Bool { workers.wakesWatchdog || areWaiting }

  var server: LoopServer { .nobody }

  var pool: WorkerPool? { .cooperative }

  func update() {
    // In this order: a monitor that stops ends the watch before it takes its hook away.
    if isHooked, let problem = tasks.problem, tasks.isWatching {
      isHooked = false
      workers.wakeWatchdog()
      Diagnostics.say(TaskPool.note(problem))
    }
    workers.scan(at: MonotonicClock.now())
    guard pulse.word.phase != .idle, !isHooked || !areWaiting || last?.begun != begun else { return }
    last = nil
    pulse.end(pulse.word)
  }

  func beat() {
    guard isHooked else { return }
    let (stamp, begun) = (pulse.stampNow(), begun)
    guard areWaiting else { return last = nil }
    guard let last, last.begun == begun else { return last = (begun, stamp) }
    pulse.turn(.heartbeat, stamp: last.stamp)
    if !tasks.endTurnAtNextJob(of: pulse) || self.begun != begun { pulse.end(pulse.word) }
  }
}
