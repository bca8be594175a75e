import CLinux
import CUnwind
import StallCapture
import StallReport

/// A worker thread of libdispatch that runs jobs without a stamp, watched by what the kernel says of it.
///
/// Its turn is a time in which it runs one job, of one task: it begins when a check first meets the task there. Where that is not known,
/// it is a time in which the thread is blocked in one system call, and the turn ends when the thread has run; a worker without a job waits
/// in the same way, which its stack shows. All on the watchdog's thread.
final class UnstampedWorker: @unchecked Sendable {  // Used by the watchdog alone, but for what is constant.
  let id: Int32
  let pulse: Pulse
  let leastThreshold: UInt64
  private let runsJobs: UInt64
  /// Whether the watchdog wakes for its beats; otherwise ``WorkerDiscovery`` sends them.
  var isDue: Bool
  /// Whether it has run a job without a stamp.
  private(set) var hasRunJob = false
  // Of these two at most one.
  private var blocked: (thread: BlockedThread, stamp: UInt64)?
  private var running: RunningJob?
  private var mayUsePerf = true
  private var hasEnded = false

  /// Watches a thread, from the watchdog's; `leastThreshold` is that of its priority, in nanoseconds.
  init(id: Int32, pulse: Pulse, leastThreshold: UInt64, isDue: Bool) {
    self.id = id
    self.isDue = isDue
    self.pulse = pulse
    self.leastThreshold = leastThreshold
    runsJobs = clinux_task_run_address()
  }

  /// Whether it runs a job that may be the first of those.
  var mayRunFirstJob: Bool { running != nil && !hasRunJob }

  /// Ends the watch.
  func end() { hasEnded = true }
}

extension UnstampedWorker: HeartbeatSource {
  var isBeating: Bool { true }

  var server: LoopServer { .thread(id) }

  var isOver: Bool { hasEnded }

  func update() {
    guard pulse.word.phase != .idle else { return }
    guard isLasting else {
      forget()
      return pulse.idle()
    }
    // The runtime has short jobs of its own, which it does not pass to the hook.
    if let running, running.hasComputed, !runsStampedJob { hasRunJob = true }
  }

  private var isLasting: Bool { blocked?.thread.isStillBlocked ?? running?.isLasting ?? false }

  private func forget() { (blocked, running) = (nil, nil) }

  /// The thread is a loop of its own then.
  private var runsStampedJob: Bool { clinux_task_pool_runs_job(id) }

  /// Begins a turn if the thread has not run since the beat before, or if it runs a job.
  func beat() {
    if runsStampedJob { return forget() }
    if let blocked, blocked.thread.isStillBlocked { return pulse.turn(.heartbeat, stamp: blocked.stamp) }
    forget()
    running = mayUsePerf ? RunningJob(of: id) : nil
    // A stamped job may have begun meanwhile.
    if runsStampedJob { return forget() }
    if running != nil { return pulse.turn(.heartbeat) }
    let stamp = pulse.stampNow()
    blocked = BlockedThread(id, of: .own).map { ($0, stamp) }
  }
}

extension UnstampedWorker: TurnWork {
  var part: TurnPart { .whole }
  func permit(perfEvents: Bool) {
    mayUsePerf = perfEvents
    if !perfEvents { running = nil }
  }

  func finish() { forget() }

  var hasExactEnd: Bool { false }
  var hasWaitingWork: Bool { false }
  var task: Report.TaskState? { running?.state }

  func isUnderWay(in stack: Backtrace?) -> Bool {
    // After the stack: a thread that waited for a job may have been given one before it was captured.
    guard isLasting, !runsStampedJob,
      stack?.frames.contains(where: { cunwind_function_start(cunwind_own_process(), $0.lookupAddress) == runsJobs })
        == true
    else { return false }
    if running.map({ $0.hasComputed || $0.isBlocked }) ?? true { hasRunJob = true }
    return true
  }
}
