import CLinux
import CUnwind
import StallCapture
import StallReport

/// A worker thread of libdispatch that runs jobs without a stamp, watched by what the kernel says of it.
///
/// Its turn is a time in which it is blocked in one system call: it begins when a check first meets the thread there, and ends when the
/// thread has run. A worker without a job waits in the same way, which its stack shows. A job that runs on CPU is not seen. All on the
/// watchdog's thread.
final class ScannedWorker: @unchecked Sendable {  // Used by the watchdog alone, but for what is constant.
  let id: Int32
  let pulse: Pulse
  let leastThreshold: UInt64
  private let runsJobs: UInt64
  private let probe: ThreadProbe
  /// Whether other jobs of the thread are stamped.
  var isBesideStamps: Bool
  private var last: (blocked: BlockedThread, stamp: UInt64)?
  private var hasEnded = false

  /// Watches a thread, from the watchdog's; `leastThreshold` is that of its priority, in nanoseconds.
  init(id: Int32, pulse: Pulse, leastThreshold: UInt64, isBesideStamps: Bool) {
    self.id = id
    self.isBesideStamps = isBesideStamps
    self.pulse = pulse
    self.leastThreshold = leastThreshold
    runsJobs = clinux_task_run_address()
    probe = ThreadProbe(thread: id)
  }

  /// Ends the watch.
  func end() { hasEnded = true }
}

extension ScannedWorker: HeartbeatSource {
  var isBeating: Bool { true }

  /// Beside stamps, ``WorkerScan`` sends the beats: the watchdog does not wake for them.
  var isDue: Bool { !isBesideStamps }

  var server: LoopServer { .thread(id) }

  var isOver: Bool { hasEnded }

  func update() {
    guard pulse.word.phase != .idle, last?.blocked.isStillBlocked != true else { return }
    last = nil
    pulse.idle()
  }

  /// Begins a turn if the thread has not run since the beat before.
  func beat() {
    // The thread is a loop of its own then.
    if isBesideStamps, clinux_task_pool_runs_job(id) { return last = nil }
    if let last, last.blocked.isStillBlocked { return pulse.turn(.heartbeat, stamp: last.stamp) }
    last = nil
    let (stamp, slices) = (pulse.stamp(), probe.schedule()?.timeslices)
    guard case .blocked(let call) = probe.activity() else { return }
    last = BlockedThread(id, call: call, timeslices: slices).map { ($0, stamp) }
  }
}

extension ScannedWorker: TurnWork {
  var part: TurnPart { .whole }
  var hasExactEnd: Bool { false }
  var hasWaitingWork: Bool { false }
  var task: Report.TaskState? { nil }

  func isUnderWay(in stack: Backtrace?) -> Bool {
    stack?.frames.contains { cunwind_function_start($0.lookupAddress) == runsJobs } ?? false
  }
}
