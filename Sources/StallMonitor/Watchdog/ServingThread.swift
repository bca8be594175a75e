import StallCapture
import StallReport

/// The thread that serves a loop, and what the kernel counts for it in the current turn.
///
/// It may change where a heartbeat watches a queue that workers serve. Belongs to the watchdog's thread.
final class ServingThread {
  /// The thread that serves the loop, unless the heartbeat knows another.
  private let own: WatchedLoop.Subject.Thread
  private let heartbeat: (any HeartbeatSource)?
  private(set) var probe: ThreadProbe
  private let counters: ProcessCounters
  // What had been counted when this turn, or the thread that serves it now, was first seen.
  private var baseline: ThreadUsage?
  // The same when the last beat was handed to the courier.
  private var beatBaseline: ThreadUsage?
  // The same at the last check, also between turns.
  private var lastCheck: ThreadUsage?
  /// What is known of the current turn before its baseline; nil if that is nothing.
  private(set) var beginning: TurnBeginning?

  init(_ own: WatchedLoop.Subject.Thread, heartbeat: (any HeartbeatSource)?, counters: ProcessCounters) {
    (self.own, self.heartbeat, self.counters) = (own, heartbeat, counters)
    probe = ThreadProbe(thread: own.id, of: .own)
    HiddenThreads.check(probe)
  }

  /// The kernel's id of the thread that served the loop last.
  var id: Int32 { probe.id }

  /// Where its stack ends, or 0 if that is not known.
  var stackEnd: UInt64 { probe.id == own.id ? own.stackEnd : 0 }

  /// Whose threads serve the loop; nil if it has one of its own.
  var pool: WorkerPool? { heartbeat?.pool }

  /// Whether another thread may serve the loop next.
  var isShared: Bool { heartbeat.map { $0.isBeating && $0.pool != nil } ?? false }

  /// Whether the thread is one of libdispatch's workers, which block signals.
  var isWorker: Bool { isShared || own.isWorker }

  /// The thread that serves the loop at this moment.
  var server: LoopServer {
    guard let heartbeat, heartbeat.isBeating else { return .thread(own.id) }
    return heartbeat.server
  }

  /// Whether the same thread serves the loop as before.
  var isServing: Bool { server == .thread(probe.id) }

  /// Changes to the thread that serves the loop now.
  func follow() -> LoopServer {
    let server = server
    if case .thread(let id) = server, id != probe.id {
      probe = ThreadProbe(thread: id, of: .own)
      HiddenThreads.check(probe)
      baseline = usage(at: MonotonicClock.now())
      (lastCheck, beginning) = (nil, nil)
    }
    return server
  }

  // MARK: What the kernel counts

  /// Notes that a heartbeat was sent: what is counted from here on belongs to its turn.
  func didBeat(at time: UInt64) { beatBaseline = usage(at: time) }

  /// Counts from the beginning of a turn, as far as that is known; `began` is when that was.
  func beginTurn(isHeartbeat: Bool, began: UInt64, at time: UInt64) {
    let id = probe.id
    _ = follow()
    if isHeartbeat, id == probe.id, let beatBaseline {
      (baseline, beginning) = (beatBaseline, nil)
      return
    }
    let processorTime = probe.processorTime()
    let now = usage(at: time)
    let isQueued = now?.isReady == true && processorTime != nil && probe.processorTime() == processorTime
    beginning = nil
    if let now, !isHeartbeat, lastCheck != nil || isQueued {
      beginning = TurnBeginning(
        length: time > began ? time - began : 0, in: lastCheck.map(now.change(since:)),
        hasBegunNoWait: lastCheck.map(now.hasBegunNoWait(since:)) ?? false, endsQueued: isQueued)
    }
    (baseline, lastCheck) = (now, now)
  }

  /// Notes that the loop was met between turns; `isQuiet` if it has not moved since the last check.
  func rest(at time: UInt64, isQuiet: Bool) {
    // A thread that waits is counted for nothing more until it turns: it need not be read each time.
    if isQuiet, lastCheck?.isReady == false { return }
    lastCheck = counters.usageOfThread(probe, at: time)
  }

  /// Forgets what was counted before a turn that was not seen until it was late.
  func forgetUsage() { (baseline, lastCheck, beginning) = (nil, nil, nil) }

  /// What was counted in the turn up to `time`; nil if that is not known.
  func change(at time: UInt64) -> ResourceUsage? {
    guard let baseline, let usage = usage(at: time) else { return nil }
    return usage.change(since: baseline)
  }

  private func usage(at time: UInt64) -> ThreadUsage? {
    counters.usage(of: probe, at: time)
  }
}
