import CLinux
import CUnwind
import PlatformLibc
import StallReport

/// Takes the stacks of a process's threads.
///
/// A thread that is blocked in the kernel is read. A running one is sampled (``ThreadSampler``). The monitor does not signal a thread that
/// it sees in a system call: the call would fail with EINTR or end early. Used by one thread at a time; takes no lock that the process's
/// own code can hold, and allocates nothing between ``prepareThread()`` and the stack in its buffer.
package final class ThreadCapture {
  /// The minimum number of attempts for a thread that moves while it is read or gives no sample; the maximum number of retries for one
  /// that blocks signals.
  private static let attempts = 8
  /// How often a running thread's stack is taken again that is cut short.
  private static let retakes = 4
  /// The time limit for the attempts to capture one thread, in nanoseconds.
  ///
  /// It does not interrupt the unwinding.
  package static let patience: UInt64 = 100_000_000
  /// How long to wait for a sample before the thread's state is checked again.
  private static let lookInterval: UInt64 = 1_000_000
  private static let frameLimit = 2048
  /// How long to wait for another capture of this process to end, in nanoseconds.
  private static let claimTimeout: UInt64 = 1_000_000_000

  /// The process whose threads are captured.
  package let process: ProcessHandle
  private let unwinder: OpaquePointer?
  private let isPerfWanted: Bool
  /// Whether running threads are sampled by perf events.
  private(set) var usesPerf = false
  /// Whether threads that run are sampled; without that no thread gets a signal or a perf event.
  package var samplesRunningThreads = true
  /// Why no stack can be taken, or nil if stacks can.
  package let problem: String?
  // The same, as a report says it.
  private let noStack: CaptureFailure
  private let frames: UnsafeMutablePointer<cunwind_frame>
  private let asyncCallers = UnsafeMutableBufferPointer<UInt64>.allocate(capacity: AsyncCallers.limit)
  // Descriptors of the capture are one thread's.
  private var preparedThread: clinux_thread_t?

  /// Opens libunwind.
  ///
  /// Takes the dynamic loader's lock: call it at start. It opens no descriptor: ``prepareThread()`` does, on the thread that captures.
  ///
  /// - Parameters:
  ///   - process: The process whose threads are captured.
  ///   - mayUsePerf: False for tests of the timer alone.
  package init(of process: ProcessHandle, mayUsePerf: Bool = true) {
    self.process = process
    isPerfWanted = mayUsePerf
    problem = cunwind_load().map { String(cString: $0) }
    unwinder = problem == nil ? cunwind_unwinder_create(process.cunwind) : nil
    noStack = problem.flatMap(CaptureFailure.init) ?? .noUnwinder
    frames = .allocate(capacity: Self.frameLimit)
  }

  deinit {
    cunwind_unwinder_destroy(unwinder)
    frames.deallocate()
    asyncCallers.deallocate()
  }

  /// Opens what the calling thread needs to capture; again when something may have changed since.
  ///
  /// Call it when the thread starts: a process that becomes non-dumpable later can open nothing of its own any more.
  package func prepareThread() {
    preparedThread = clinux_thread_self()
    process.prepareThread()
    usesPerf = isPerfWanted && cunwind_perf_is_permitted()
    if process.isOwn { cunwind_threads_need_timer(!usesPerf) }
  }

  /// Why running threads will have no stacks while blocked ones have, in words; nil if they will have, too.
  package var samplingProblem: String? {
    guard problem == nil, !usesPerf else { return nil }
    guard process.isOwn else { return "perf events are not permitted" }
    let result = cunwind_timer_check()
    switch result {
    case 0: return nil
    case -ENOTSUP: return "perf events are not permitted, and this kernel has no timer that spares system calls"
    default: return "perf events are not permitted, and timer_create: \(String(cString: strerror(-result)))"
    }
  }

  /// Closes what the calling thread has opened.
  ///
  /// Call it before the thread ends.
  package func finishThread() {
    preparedThread = nil
    process.finishThread()
  }

  private func prepareThreadOnce() {
    if preparedThread.map({ $0 == clinux_thread_self() }) != true { prepareThread() }
  }

  /// Forgets modules that may have been unloaded since.
  ///
  /// Call it when a stall begins.
  package func flush() {
    prepareThread()
    if let unwinder { cunwind_unwinder_flush(unwinder) }
  }

  /// Takes the thread's stack.
  ///
  /// - Parameters:
  ///   - probe: The thread.
  ///   - stackEnd: Where its stack ends, or 0 if unknown.
  ///   - patience: The time limit for the capture, in nanoseconds.
  ///   - isWorker: It is one of libdispatch's workers, which block all signals but SIGPROF and those of a crash: SIGPROF may be borrowed,
  ///     if the process leaves it alone.
  /// - Returns: What the thread was doing, and its stack or why there is none.
  package func capture(
    _ probe: borrowing ThreadProbe, stackEnd: UInt64, patience: UInt64 = ThreadCapture.patience,
    isWorker: Bool = false
  ) -> ThreadSnapshot {
    snapshot(captureIntoBuffer(probe, stackEnd: stackEnd, patience: patience, isWorker: isWorker))
  }

  /// Takes the thread's stack into the buffer.
  package func captureIntoBuffer(
    _ probe: borrowing ThreadProbe, stackEnd: UInt64, patience: UInt64 = ThreadCapture.patience,
    isWorker: Bool = false
  ) -> BufferedSnapshot {
    prepareThreadOnce()
    guard claim() else { return BufferedSnapshot(probe.activity(), .busy) }
    defer { cunwind_snapshot_release(process.cunwind) }
    let progress = ThreadProgress(of: probe)
    var sampler: ThreadSampler?
    var failure = CaptureFailure.moving
    let end = MonotonicClock.now() + patience
    for attempt in 0... {
      let isLast = MonotonicClock.now() > end
      if attempt >= Self.attempts, isLast { break }
      let count = probe.runCount()
      let activity = probe.activity()
      switch activity {
      case .unknown: return BufferedSnapshot(activity, probe.hasEnded ? .threadEnded : .noActivity)
      case .running:
        guard samplesRunningThreads else { return BufferedSnapshot(activity, .notWanted) }
        guard unwinder != nil else { return BufferedSnapshot(activity, noStack) }
        do throws(CaptureFailure) {
          if sampler == nil { sampler = try ThreadSampler(probe, mayUsePerf: usesPerf, isWorker: isWorker) }
          if let stack = try sample(&sampler!, of: probe) { return BufferedSnapshot(activity, stack, sampler!.method) }
          failure = .noAnswer
        } catch {
          sampler = nil
          // The C library blocks all signals for a moment, as when it makes or ends a thread.
          guard error == .signalBlocked, attempt < Self.attempts else { return BufferedSnapshot(activity, error) }
          failure = error
          pause(nanoseconds: 20_000)
        }
      case .blocked(let call):
        sampler = nil
        // It stands where it was stopped, and waits for something else than that call.
        if probe.status()?.isStopped == true { return BufferedSnapshot(.unknown, .stopped) }
        if let stack = read(probe, in: call, stackEnd: stackEnd, runCount: count) {
          return BufferedSnapshot(activity, stack, .procfs, runCount: count)
        }
        failure = .moving
      }
    }
    let activity = probe.activity()
    if failure == .noAnswer { failure = progress.whyNoSample(of: probe) }
    return BufferedSnapshot(activity, failure)
  }

  /// Takes further samples of a running thread into the buffer, one after the other, until `body` returns false.
  ///
  /// Ends as soon as the thread is blocked, another capture is in progress, `isOver` returns true,
  /// or `deadline` has passed. Two perf samples are a fifth of a millisecond apart, two of the
  /// timer a tick of the kernel's clock.
  package func follow(
    _ probe: borrowing ThreadProbe, until deadline: UInt64, isOver: () -> Bool,
    body: (Backtrace) -> Bool
  ) {
    guard samplesRunningThreads, probe.activity() == .running, claim(timeout: 0) else { return }
    defer { cunwind_snapshot_release(process.cunwind) }
    guard var sampler = try? ThreadSampler(probe, mayUsePerf: usesPerf, isWorker: false) else { return }
    while true {
      var snapshot = cunwind_snapshot()
      var isTaken = false
      while !isTaken {
        guard let result = try? sampler.wait(Self.lookInterval, of: probe, for: &snapshot) else { return }
        isTaken = result
        guard MonotonicClock.now() < deadline, !isOver(), isTaken || probe.activity() == .running else { return }
      }
      var stack = unwind(&snapshot)
      // The thread has continued since.
      if stack.readLive { stack.isApproximate = true }
      addAsyncCallers(to: &stack, of: probe, snapshot, isRunning: true)
      guard stack.failure == nil, !stack.isCutShort, body(backtrace(stack, sampler.method)) else { return }
      guard MonotonicClock.now() < deadline, (try? sampler.restart(probe)) != nil else { return }
    }
  }

  private func claim(timeout: UInt64 = ThreadCapture.claimTimeout) -> Bool {
    let deadline = MonotonicClock.now() + timeout
    while !cunwind_snapshot_claim(process.cunwind) {
      guard MonotonicClock.now() < deadline else { return false }
      pause(nanoseconds: 50_000)
    }
    return true
  }

  /// Reads a blocked thread.
  ///
  /// Nil if it has run in between: the same call at the same place is the same moment only if it never had a processor.
  private func read(
    _ probe: borrowing ThreadProbe, in call: ThreadProbe.BlockedCall, stackEnd: UInt64, runCount: UInt64?
  ) -> BufferedStack? {
    var snapshot = cunwind_snapshot()
    guard cunwind_snapshot_read(process.cunwind, call.stackPointer, stackEnd, &snapshot) else {
      return BufferedStack(failure: .busy)
    }
    if snapshot.stack_length == 0, process.isOver { return BufferedStack(failure: .threadEnded) }
    guard probe.activity() == .blocked(call), probe.runCount() == runCount else { return nil }
    snapshot.setRegister(Int(CUNWIND_PROGRAM_COUNTER), call.programCounter)
    snapshot.setRegister(Int(CUNWIND_STACK_POINTER), call.stackPointer)
    if call.number >= 0 { snapshot.setArguments(of: call) }
    var stack = unwind(&snapshot)
    addAsyncCallers(to: &stack, of: probe, snapshot, isRunning: false)
    // The memory that was read during the unwinding is consistent only if the thread still waits in
    // the same call.
    guard stack.readLive || stack.asyncCallers != nil else { return stack }
    if probe.activity() == .blocked(call), probe.runCount() == runCount { return stack }
    stack.asyncCallers = nil
    return stack.readLive ? nil : stack
  }

  /// Waits for a sample for a millisecond, and takes it again where it is cut short.
  private func sample(
    _ sampler: inout ThreadSampler, of probe: borrowing ThreadProbe
  ) throws(CaptureFailure) -> BufferedStack? {
    var snapshot = cunwind_snapshot()
    guard try sampler.wait(Self.lookInterval, of: probe, for: &snapshot) else { return nil }
    var stack = unwind(&snapshot)
    // Memory below the stack pointer is in no perf sample; the next one need not depend on it.
    let isWhole = snapshot.stack_length < Self.perfStackLimit
    for _ in 0..<Self.retakes where stack.isCutShort || (stack.readLive && sampler.method == .perf && isWhole) {
      guard (try? sampler.restart(probe)) != nil,
        (try? sampler.wait(8 * Self.lookInterval, of: probe, for: &snapshot)) == true
      else { break }
      stack = unwind(&snapshot)
    }
    // The thread has continued since.
    if stack.readLive { stack.isApproximate = true }
    addAsyncCallers(to: &stack, of: probe, snapshot, isRunning: true)
    return stack
  }

  /// A perf sample with this many bytes of a stack may not have all of it.
  private static let perfStackLimit: UInt64 = 65_000

  private func unwind(_ snapshot: inout cunwind_snapshot) -> BufferedStack {
    guard let unwinder else { return BufferedStack(failure: noStack) }
    let result = cunwind_unwind(unwinder, &snapshot, frames, Self.frameLimit)
    return BufferedStack(
      count: result.count, isApproximate: result.approximate, isTruncated: result.end != CUNWIND_END_OUTERMOST,
      readLive: result.read_live,
      isCutShort: result.end == CUNWIND_END_LOST && (result.read_live || result.is_outside_modules))
  }

  /// Reads who waits for what the thread runs, if that is a task.
  private func addAsyncCallers(
    to stack: inout BufferedStack, of probe: borrowing ThreadProbe, _ snapshot: cunwind_snapshot, isRunning: Bool
  ) {
    guard stack.failure == nil, !stack.isTruncated, let layout = process.taskLayout else { return }
    let search = AsyncCallerSearch(
      layout: layout, thread: probe.id, frames: UnsafeBufferPointer(start: frames, count: stack.count),
      snapshot: snapshot, isRunning: isRunning)
    stack.asyncCallers = search.callers(into: asyncCallers)
  }

  /// Copies what is in the buffer.
  package func snapshot(_ buffered: BufferedSnapshot) -> ThreadSnapshot {
    let result: Result<Backtrace, CaptureFailure> =
      switch buffered.outcome {
      case .stack(let stack): .success(backtrace(stack, buffered.method))
      case .failure(let failure): .failure(failure)
      }
    return ThreadSnapshot(activity: buffered.activity, backtrace: result, runCount: buffered.runCount)
  }

  private func backtrace(_ stack: BufferedStack, _ method: CaptureMethod?) -> Backtrace {
    var found = UnsafeBufferPointer(start: frames, count: stack.count).map {
      Backtrace.Frame(address: $0.address, isReturnAddress: $0.is_return_address)
    }
    let callers = stack.asyncCallers ?? AsyncCallers()
    found += asyncCallers[..<callers.count].map { Backtrace.Frame(asyncCaller: $0) }
    return Backtrace(
      frames: found, isApproximate: stack.isApproximate, isTruncated: stack.isTruncated || callers.isTruncated,
      isChildTask: callers.isChildTask, method: method)
  }

  private func pause(nanoseconds: Int) {
    var time = timespec(tv_sec: 0, tv_nsec: nanoseconds)
    nanosleep(&time, nil)
  }
}

extension cunwind_snapshot {
  /// Sets a register by its DWARF number, and marks it known.
  mutating func setRegister(_ number: Int, _ value: UInt64) {
    withUnsafeMutableBytes(of: &registers) { $0.storeBytes(of: value, toByteOffset: number * 8, as: UInt64.self) }
    known |= 1 << UInt64(number)
  }
}
