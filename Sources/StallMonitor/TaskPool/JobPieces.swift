import StallCapture

/// Distinguishes the pieces of one thread's jobs: the tasks of an actor's job, and what a task does before and after a `Task.yield()`.
///
/// A yield need not suspend its task: while a thread of the pool is idle, the task mostly continues in the same job. All on the
/// watchdog's thread.
struct JobPieces {
  private let thread: Int32
  private let threadPointer: UInt64
  private var mayUsePerf = true

  // Of the job that was met last.
  private var job = Pulse.Word(raw: 0)
  private var runsOneTask = true
  private var isWatched = false
  // Each is nil where it is refused.
  private var change: Breakpoint?
  private var yield: Breakpoint?
  // The piece that runs; nil while the job is one.
  private var piece: UInt64?
  // Whether the task has yielded and could do so again unnoticed.
  private var yieldsUnnoticed = false
  // The call in which the thread waits, where nothing else distinguishes pieces.
  private var call: (number: UInt64, thread: BlockedThread)?
  // No two pieces have the same number. The one after it is that of a piece which has begun since: it counts from when it is met.
  private var number: UInt64 = 0

  init(of thread: Int32, threadPointer: UInt64) {
    (self.thread, self.threadPointer) = (thread, threadPointer)
  }

  /// Notes the job that the thread runs, before ``part()``.
  ///
  /// A short job of one task has no pieces that matter: `isShort` spares it the breakpoint.
  mutating func meet(_ job: Pulse.Word, runsOneTask: Bool, isShort: Bool) {
    if job != self.job {
      rest()
      (self.job, self.runsOneTask) = (job, runsOneTask)
    }
    guard let layout = ProcessHandle.own.taskLayout, !(runsOneTask && isShort) else { return }
    if !isWatched {
      isWatched = true
      setBreakpoints(layout)
      // A task may have yielded before.
      if !runsOneTask || layout.hasYielded(threadPointer: threadPointer) { piece = next() }
    } else if isHit {
      setBreakpoints(layout)
      piece = next()
    }
    if yield == nil, runsOneTask, layout.hasYielded(threadPointer: threadPointer) { yieldsUnnoticed = true }
    if isInDoubt(layout), call?.thread.isStillBlocked != true {
      let number = next()
      call = BlockedThread(thread, of: .own).map { (number, $0) }
    }
  }

  /// Notes that the thread runs no job.
  mutating func rest() {
    (change, yield, call, piece) = (nil, nil, nil, nil)
    (isWatched, yieldsUnnoticed) = (false, false)
    job = Pulse.Word(raw: 0)
  }

  /// Sets whether the thread may be watched by perf events.
  mutating func permit(perfEvents: Bool) {
    rest()
    mayUsePerf = perfEvents
  }

  /// What the thread runs of the job now.
  func part() -> TurnPart {
    guard !runsOneTask || isWatched else { return .whole }
    guard let layout = ProcessHandle.own.taskLayout, let task = layout.currentTask(threadPointer: threadPointer) else {
      return runsOneTask ? .whole : .several(0)
    }
    if isHit { return .certainPiece(number + 1) }
    if isInDoubt(layout) {
      if let call, call.thread.isStillBlocked { return .certainPiece(call.number) }
      return task == 0 ? .several(piece ?? 0) : .certainPiece(number + 1)
    }
    guard runsOneTask || change != nil else {
      // By its task's number: another task may come to lie at the address.
      return .piece(UInt64(layout.runningTaskID(threadPointer: threadPointer) ?? 0))
    }
    return piece.map { .certainPiece($0) } ?? .whole
  }

  private var isHit: Bool { change?.isHit == true || yield?.isHit == true }

  /// Whether pieces may follow each other unnoticed: isolated deinits, which have no task, and yields without a breakpoint.
  private func isInDoubt(_ layout: TaskLayout) -> Bool {
    if !runsOneTask, layout.currentTask(threadPointer: threadPointer) == 0 { return true }
    return yieldsUnnoticed || yield == nil && layout.hasYielded(threadPointer: threadPointer)
  }

  private mutating func setBreakpoints(_ layout: TaskLayout) {
    (change, yield) = (nil, nil)
    // The watch needs a descriptor, and the service's numbers are the service's.
    guard mayUsePerf, OwnThreads.isApart else { return }
    yield = Breakpoint.yield(on: thread)
    if !runsOneTask { change = Breakpoint.change(ofTaskOn: thread, threadPointer: threadPointer, layout: layout) }
  }

  private mutating func next() -> UInt64 {
    number += 2
    return number
  }
}
