import CUnwind
import Glibc

/// Takes the stack of another thread of this process.
///
/// A thread that stands still in the kernel is read and never signalled: a signal would make its system call fail with
/// EINTR or end early. A running thread gets one signal, whose handler copies and does nothing else. Used on the watchdog
/// alone; takes no lock that the host can hold.
final class ThreadCapture {
  /// What was found of a thread at one moment.
  struct Moment {
    var activity: ThreadProbe.Activity
    var backtrace: Result<Backtrace, CaptureFailure>
    /// Of a blocked thread: how often it had been put onto a processor.
    var timeslices: UInt64?
  }

  private static let attempts = 8
  /// How often a running thread's stack is taken again that is cut short.
  private static let retakes = 2
  /// How long a thread is looked at before it is given up.
  static let patience: UInt64 = 100_000_000
  private static let frameLimit = 2048
  private static let handlerTimeout: UInt64 = 200_000_000
  /// How long another capture of this process is waited for: it takes a millisecond.
  private static let claimTimeout: UInt64 = 1_000_000_000

  private let unwinder: OpaquePointer?
  private let steadyTime: UInt64
  private let frames: UnsafeMutablePointer<cunwind_frame>

  /// Opens libunwind and installs the capture signal's handler.
  ///
  /// Takes the dynamic loader's lock: call it at start.
  ///
  /// - Parameter steadyTime: How long a thread must have run steadily before it is signalled, in nanoseconds of its processor
  ///   time. Less than the default only for threads that are known to be in no transfer.
  init(steadyTime: UInt64 = SteadyRun.needed) {
    self.steadyTime = steadyTime
    unwinder = cunwind_load() == nil ? cunwind_unwinder_create() : nil
    _ = cunwind_handler_install()
    frames = .allocate(capacity: Self.frameLimit)
  }

  deinit {
    cunwind_unwinder_destroy(unwinder)
    frames.deallocate()
  }

  /// Forgets modules that may have been unloaded since.
  ///
  /// Call it when a stall begins.
  func flush() {
    cunwind_memory_prepare()
    if let unwinder { cunwind_unwinder_flush(unwinder) }
  }

  /// Takes the thread's stack.
  ///
  /// - Parameters:
  ///   - probe: The thread.
  ///   - stackEnd: Where its stack ends, or 0 if unknown.
  ///   - patience: How long it is looked at before it is given up, in nanoseconds.
  ///   - isWorker: It is one of libdispatch's workers, which block all signals but SIGPROF: that one may be borrowed, if the host leaves it
  ///     alone.
  /// - Returns: What the thread was doing, and its stack or why there is none.
  func capture(
    _ probe: borrowing ThreadProbe, stackEnd: UInt64, patience: UInt64 = ThreadCapture.patience,
    isWorker: Bool = false
  ) -> Moment {
    let deadline = MonotonicClock.now() + Self.claimTimeout
    while !cunwind_snapshot_claim() {
      guard MonotonicClock.now() < deadline else {
        return Moment(activity: probe.activity(), backtrace: .failure(.busy))
      }
      pause(nanoseconds: 50_000)
    }
    defer { cunwind_snapshot_release() }
    var failure = CaptureFailure.moving
    var run = SteadyRun(needed: steadyTime)
    let end = MonotonicClock.now() + patience
    for attempt in 0... {
      if attempt >= Self.attempts, MonotonicClock.now() > end { break }
      let slices = probe.schedule()?.timeslices
      let activity = probe.activity()
      switch activity {
      case .unknown:
        return Moment(activity: activity, backtrace: .failure(probe.hasEnded ? .threadEnded : .noActivity))
      case .running:
        switch run.look(at: probe) {
        case .steady:
          var isCutShort = false
          var moment = captureRunning(probe, stackEnd: stackEnd, isWorker: isWorker, isCutShort: &isCutShort)
          for _ in 0..<Self.retakes where isCutShort {
            moment = captureRunning(probe, stackEnd: stackEnd, isWorker: isWorker, isCutShort: &isCutShort)
          }
          // The C library blocks all signals for a moment, as when it makes or ends a thread.
          guard case .failure(.signalBlocked) = moment.backtrace, attempt < Self.attempts else { return moment }
          failure = .signalBlocked
        case .waiting: failure = .noProcessor
        case .alternating: failure = .moving
        }
        pause(nanoseconds: 20_000)
      case .blocked(let call):
        var snapshot = cunwind_snapshot()
        guard cunwind_snapshot_read(call.stackPointer, stackEnd, &snapshot) else {
          return Moment(activity: activity, backtrace: .failure(.busy))
        }
        // It may have run in between: the same call at the same place is the same moment only if it never had a processor.
        guard probe.activity() == activity, probe.schedule()?.timeslices == slices else {
          failure = .moving
          continue
        }
        snapshot.setRegister(Int(CUNWIND_RIP), call.programCounter)
        snapshot.setRegister(Int(CUNWIND_RSP), call.stackPointer)
        if call.number >= 0 {
          // vfork keeps its return address in rdi.
          let (rdi, rsi, rdx, r10, r8, r9) = call.arguments
          for (register, value) in [(5, rdi), (4, rsi), (1, rdx), (10, r10), (8, r8), (9, r9)] {
            snapshot.setRegister(register, value)
          }
        }
        let unwound = unwind(&snapshot)
        // What was read during the unwinding is of the same moment only if the thread still stands there.
        if unwound.readLive, probe.activity() != activity || probe.schedule()?.timeslices != slices {
          failure = .moving
          continue
        }
        return Moment(activity: activity, backtrace: unwound.backtrace, timeslices: slices)
      }
    }
    return Moment(activity: probe.activity(), backtrace: .failure(failure))
  }

  /// Takes the stack of a thread that does nothing but compute, once more.
  ///
  /// Nil as soon as it does anything else, another capture is under way, `isOver` says so, or `deadline` has passed. Looks once a millisecond.
  /// For how long the process stood still in its pauses is added to `frozen`.
  func captureComputing(
    _ probe: borrowing ThreadProbe, run: inout UserModeRun, stackEnd: UInt64, until deadline: UInt64,
    freezes: inout FreezeDetector, frozen: inout UInt64, isOver: () -> Bool
  ) -> Backtrace? {
    while true {
      // The pause alone: what a look takes, or waiting for the thread's signal handler, is no freeze.
      freezes.willWait()
      let wake = MonotonicClock.now() + 1_000_000
      pause(nanoseconds: 1_000_000)
      let now = MonotonicClock.now()
      if now > wake { frozen += freezes.frozen(lateness: now - wake) }
      guard MonotonicClock.now() < deadline, !isOver(), probe.activity() == .running else { return nil }
      switch run.look(at: probe) {
      case .waiting: continue
      case .over: return nil
      case .steady: break
      }
      guard cunwind_snapshot_claim() else { return nil }
      defer { cunwind_snapshot_release() }
      var isCutShort = false
      let moment = captureRunning(probe, stackEnd: stackEnd, isWorker: false, isCutShort: &isCutShort)
      guard case .success(let backtrace) = moment.backtrace, !isCutShort else { return nil }
      run.restart(at: probe)
      return backtrace
    }
  }

  /// Takes the stack of a running thread.
  ///
  /// `isCutShort` tells that it ends where the thread may have gone on since: beyond the copy, or in a library that has been
  /// unloaded.
  private func captureRunning(
    _ probe: borrowing ThreadProbe, stackEnd: UInt64, isWorker: Bool, isCutShort: inout Bool
  ) -> Moment {
    isCutShort = false
    let signal = cunwind_handler_install()
    guard signal > 0 else { return Moment(activity: .running, backtrace: .failure(.noSignal)) }
    // A blocked signal would stay pending, and reach the thread at a time of nobody's choosing; so would a second one
    // behind one that the thread has not had the time to take.
    var state = probe.state(of: signal)
    let isBorrowing = isWorker && state?.isBlocked == true
    // libdispatch's workers block all signals but those of a crash, and this one.
    if isBorrowing { state = probe.state(of: SIGPROF) }
    guard let state, !state.isBlocked else {
      return Moment(activity: .running, backtrace: .failure(.signalBlocked))
    }
    guard !state.isPending else { return Moment(activity: .running, backtrace: .failure(.pending)) }
    var snapshot = cunwind_snapshot()
    let failure: CaptureFailure
    let take = isBorrowing ? cunwind_capture_by_borrowed_signal : cunwind_capture_by_signal
    switch take(probe.id, stackEnd, Self.handlerTimeout, &snapshot) {
    case CUNWIND_CAPTURED:
      var unwound = unwind(&snapshot)
      isCutShort = unwound.isCutShort
      // The thread has gone on since.
      if unwound.readLive { unwound.backtrace = unwound.backtrace.map { $0.approximated() } }
      return Moment(activity: .running, backtrace: unwound.backtrace)
    case CUNWIND_CAPTURE_NO_THREAD: failure = .threadEnded
    case CUNWIND_CAPTURE_BUSY: failure = .busy
    case CUNWIND_CAPTURE_UNSUPPORTED: failure = isBorrowing ? .signalBlocked : .noSignal
    case CUNWIND_CAPTURE_REFUSED: failure = .refused
    default: failure = .noAnswer
    }
    return Moment(activity: .running, backtrace: .failure(failure))
  }

  private struct Unwound {
    var backtrace: Result<Backtrace, CaptureFailure>
    /// The copy was not enough.
    var readLive = false
    /// Outer frames are lost behind memory or code that may have changed since.
    var isCutShort = false
  }

  private func unwind(_ snapshot: inout cunwind_snapshot) -> Unwound {
    guard let unwinder else { return Unwound(backtrace: .failure(.noUnwinder)) }
    let result = cunwind_unwind(unwinder, &snapshot, frames, Self.frameLimit)
    let found = UnsafeBufferPointer(start: frames, count: result.count).map {
      Backtrace.Frame(address: $0.address, isReturnAddress: $0.is_return_address)
    }
    let backtrace = Backtrace(
      frames: found, isApproximate: result.approximate, isTruncated: result.end != CUNWIND_END_OUTERMOST)
    return Unwound(
      backtrace: .success(backtrace), readLive: result.read_live,
      isCutShort: result.end == CUNWIND_END_LOST && (result.read_live || result.is_outside_modules))
  }

  private func pause(nanoseconds: Int) {
    var time = timespec(tv_sec: 0, tv_nsec: nanoseconds)
    nanosleep(&time, nil)
  }
}

extension Backtrace {
  fileprivate func approximated() -> Backtrace {
    var backtrace = self
    backtrace.isApproximate = true
    return backtrace
  }
}

extension cunwind_snapshot {
  /// Sets a register by its DWARF number, and marks it known.
  fileprivate mutating func setRegister(_ number: Int, _ value: UInt64) {
    withUnsafeMutableBytes(of: &registers) { $0.storeBytes(of: value, toByteOffset: number * 8, as: UInt64.self) }
    known |= 1 << UInt32(number)
  }
}
