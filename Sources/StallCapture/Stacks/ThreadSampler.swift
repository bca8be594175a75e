import CUnwind
import PlatformLibc
import StallReport

/// Samples of one thread while it runs.
///
/// Neither method signals a thread that is inside a system call: perf events need no signal, and the timer counts the thread's
/// user-mode time alone. Made, used and released on one thread, which holds the snapshot memory.
struct ThreadSampler: ~Copyable {
  private enum Source {
    case perf(cunwind_perf)
    case timer(cunwind_timer)
  }

  private var source: Source
  private let isWorker: Bool

  var method: CaptureMethod {
    switch source {
    case .perf: .perf
    case .timer: .timer
    }
  }

  /// Prepares a first sample.
  ///
  /// `mayUsePerf` is false where perf events are known to be refused. For one of libdispatch's workers (`isWorker`), which block
  /// all signals but SIGPROF and those of a crash, SIGPROF may be borrowed.
  init(_ probe: borrowing ThreadProbe, mayUsePerf: Bool, isWorker: Bool) throws(CaptureFailure) {
    self.isWorker = isWorker
    if mayUsePerf {
      if OwnThreads.isApart { cunwind_perf_keep_ready() }
      var perf = cunwind_perf()
      switch cunwind_perf_open(&perf, probe.process.cunwind, probe.id) {
      case CUNWIND_CAPTURED:
        guard cunwind_perf_request(&perf) else {
          cunwind_perf_close(&perf)
          throw .refused
        }
        source = .perf(perf)
        return
      case CUNWIND_CAPTURE_NO_THREAD: throw .threadEnded
      default: break
      }
    }
    // The timer's signal has its handler in this process.
    guard probe.process.isOwn else { throw .refused }
    source = .timer(try Self.timer(probe, isWorker: isWorker))
  }

  deinit {
    switch source {
    case .perf(var perf): cunwind_perf_close(&perf)
    case .timer(var timer): cunwind_timer_end(&timer)
    }
  }

  /// Starts a timer with a signal that the thread does not block.
  ///
  /// A blocked signal would stay pending and arrive at an arbitrary later time; so would a second
  /// one behind one that the thread has not had the time to take.
  private static func timer(_ probe: borrowing ThreadProbe, isWorker: Bool) throws(CaptureFailure) -> cunwind_timer {
    guard cunwind_thread_is_prepared(probe.id) else { throw .notPrepared }
    guard let state = probe.signalState() else { throw .noSignalState }
    // Strict filters allow no timer's signal to return.
    guard !state.isStrictlyFiltered else { throw .refused }
    let realTime = ~UInt64(0) << UInt64(cunwind_first_real_time_signal() - 1)
    var number = cunwind_timer_signal(state.blocked)
    if number < 0, state.blocked & realTime == realTime {
      guard isWorker, !state.isBlocked(SIGPROF), cunwind_timer_borrow_profiling_signal() else { throw .signalBlocked }
      number = SIGPROF
    }
    guard number > 0 else { throw .noSignal }
    guard !state.isPending(number) else { throw .pending }
    var timer = cunwind_timer()
    switch cunwind_timer_begin(&timer, probe.id, number) {
    case CUNWIND_CAPTURED: return timer
    case CUNWIND_CAPTURE_NO_THREAD: throw .threadEnded
    case CUNWIND_CAPTURE_BUSY: throw .busy
    case CUNWIND_CAPTURE_REFUSED: throw .refused
    default: throw .noTimer
    }
  }

  /// Asks for another sample.
  mutating func restart(_ probe: borrowing ThreadProbe) throws(CaptureFailure) {
    switch source {
    case .perf(var perf):
      guard cunwind_perf_request(&perf) else { throw .refused }
    case .timer(var timer):
      cunwind_timer_end(&timer)
      // What this struct releases, should there be no next one.
      source = .timer(timer)
      source = .timer(try Self.timer(probe, isWorker: isWorker))
    }
  }

  /// How often a thread with an armed timer is checked for a newly blocked signal, in nanoseconds.
  private static let maskInterval: UInt64 = 200_000

  /// Waits for the sample, in nanoseconds.
  ///
  /// False if there is none yet. Throws if the thread now blocks the timer's signal: release the
  /// sampler then, so that it does not stay pending.
  borrowing func wait(
    _ nanoseconds: UInt64, of probe: borrowing ThreadProbe, for snapshot: inout cunwind_snapshot
  ) throws(CaptureFailure) -> Bool {
    let result: cunwind_capture_result
    switch source {
    case .perf(var perf):
      result = cunwind_perf_wait(&perf, nanoseconds, &snapshot)
      // A request that came while the kernel still stopped the event after its last sample is lost.
      if result == CUNWIND_CAPTURE_WAITING { _ = cunwind_perf_request(&perf) }
    case .timer(var timer):
      var left = nanoseconds
      var last = CUNWIND_CAPTURE_WAITING
      while last == CUNWIND_CAPTURE_WAITING, left > 0 {
        last = cunwind_timer_wait(&timer, min(left, Self.maskInterval), &snapshot)
        left -= min(left, Self.maskInterval)
        // The handler itself runs with all signals blocked, for as long as it gets no processor.
        if last == CUNWIND_CAPTURE_WAITING, !cunwind_timer_is_copying(&timer),
          probe.signalState()?.isBlocked(timer.number) != false
        {
          // It may have begun just now.
          last = cunwind_timer_wait(&timer, Self.maskInterval, &snapshot)
          if last == CUNWIND_CAPTURE_WAITING, !cunwind_timer_is_copying(&timer) { throw .signalBlocked }
        }
      }
      result = last
    }
    switch result {
    case CUNWIND_CAPTURED: return true
    case CUNWIND_CAPTURE_WAITING: return false
    case CUNWIND_CAPTURE_NO_THREAD: throw .threadEnded
    default: throw .refused
    }
  }
}
