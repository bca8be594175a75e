import CLinux
import PlatformLibc

extension Loop {
  /// Runs in the default mode until ``stop()``, or until there is nothing left to serve.
  ///
  /// On the loop's thread only. In a program with libdispatch, the main loop has its main queue to serve in common modes, except in runs
  /// within a block of that queue.
  ///
  /// Code that runs while the loop's thread exits (a source's `didCancel`, a `deinit` of a captured object) may call `run()`: it
  /// returns `finished` at once.
  ///
  /// Unlike `RunLoop.run()`, which can't be ended, this is one run, and `stop()` ends it.
  @discardableResult
  public func run() -> RunResult {
    run(.default, limit: .max, onlyOneSource: false)
  }

  /// Runs in the default mode until a time, ``stop()``, or until there is nothing left to serve.
  ///
  /// On the loop's thread only.
  @discardableResult
  public func run(until date: Instant) -> RunResult {
    run(.default, limit: limit(date), onlyOneSource: false)
  }

  /// Runs in a mode until one source was served, or a time has come: `handledSource`, `timedOut`, `stopped` or
  /// `finished`.
  ///
  /// Timers and blocks are served but are no sources. On the loop's thread only.
  @discardableResult
  public func run(mode: Mode, before date: Instant) -> RunResult {
    run(mode, limit: limit(date), onlyOneSource: true)
  }

  /// Runs in a mode for a time: CoreFoundation's `CFRunLoopRunInMode`.
  ///
  /// On the loop's thread only.
  ///
  /// - Parameters:
  ///   - mode: The mode; `.common`, an unknown one and an empty one are finished at once, and no observer is called.
  ///   - duration: How long; zero or less: one pass without waiting.
  ///   - returnAfterSourceHandled: Whether to return after one source.
  /// - Returns: Why the run ended; if there are several reasons, the first of `handledSource`, `timedOut`, `stopped`,
  ///   `finished`.
  @discardableResult
  public func run(
    mode: Mode = .default, for duration: Duration, returnAfterSourceHandled: Bool = false
  ) -> RunResult {
    let limit = duration.attoseconds <= 0 ? Int64.min : Instant.now.advanced(by: duration).nanoseconds
    return run(mode, limit: limit, onlyOneSource: returnAfterSourceHandled)
  }

  /// A time that has come means one pass without waiting, however long ago it was.
  private func limit(_ date: Instant) -> Int64 {
    date == .distantFuture || date > .now ? date.nanoseconds : .min
  }

  /// Ends the innermost run after its current pass, which still serves what it has found ready.
  ///
  /// Safe on any thread, wakes the loop.
  ///
  /// A stop outside of any run is ignored. Two stops within a nested run end the inner one only.
  public func stop() {
    stopRequested.store(true, ordering: .releasing)
    inbox.wake()
  }

  /// Wakes the loop: ends its current sleep, or the next one, but not its run.
  ///
  /// Safe on any thread; a system call only if the loop sleeps.
  public func wakeUp() {
    inbox.wake()
  }

  /// Ends all runs, present and future, as soon as the present callout returns.
  func terminate() {
    isTerminated.store(true, ordering: .releasing)
    inbox.wake()
  }

  /// Runs what was posted before the termination.
  func drainAfterTermination() {
    assertOwner()
    isDraining = true
    _ = run(.default, limit: .min, onlyOneSource: false)
    if !markedFlushPoints.isEmpty {
      flush()
      _ = run(.default, limit: .min, onlyOneSource: false)
    }
    isDraining = false
  }

  // MARK: One run

  // All of a run is inlined into its public function, down to the system call: on the way out of the kernel the
  // processor's memory of return addresses is gone, and each function that then returns costs a misprediction, 7 ns.
  @inline(__always)
  func run(_ wanted: Mode, limit: Int64, onlyOneSource: Bool) -> RunResult {
    guard requireOwner() else { return .finished }
    noticeFork()
    absorb()
    if !parked.isEmpty { unpark() }
    guard let reference = modeToRun(wanted) else { return .finished }
    // Unretained: the loop keeps its modes for as long as it lives, and its thread, which is here, keeps the loop.
    return reference._withUnsafeGuaranteedRef { run($0, limit: limit, onlyOneSource: onlyOneSource) }
  }

  @inline(__always)
  private func run(_ mode: ModeState, limit: Int64, onlyOneSource: Bool) -> RunResult {
    let outerMode = current
    let outerStop = stopRequested.load(ordering: .relaxed)
    let outerCallout = published.save()
    if outerStop { stopRequested.store(false, ordering: .relaxed) }
    current = Unmanaged.passUnretained(mode)
    if depth == 0 { counters.outermostRunBegins() } else { descriptors.suspendCall() }
    depth &+= 1
    runCount &+= 1
    published.setMode(mode.text)
    if outerCallout.kindAndLine != 0 { published.clear() }

    // First where a turn begins and last where it ends, so that observers' work counts as the loop's.
    if let stamps = published.turnStamps { clinux_turn_entry(stamps) }
    notify(mode, .entry)
    let result = passes(mode, limit: limit, onlyOneSource: onlyOneSource)
    notify(mode, .exit)
    if let stamps = published.turnStamps { clinux_turn_exit(stamps) }

    if outerCallout.kindAndLine != 0 { published.restore(outerCallout) }
    published.setMode(outerMode?._withUnsafeGuaranteedRef { $0.text })
    depth &-= 1
    if depth == 0 { counters.outermostRunEnds() } else { descriptors.resumeCall() }
    current = outerMode
    stopRequested.store(outerStop, ordering: .relaxed)
    if depth == 0 {
      // After the mode is no longer shown: a thread that begins a watch finds that the run is over, or its change is found here.
      clinux_compiler_barrier()
      absorb()
    }
    if !parked.isEmpty { unpark() }
    return result
  }

  @inline(__always)
  private func modeToRun(_ wanted: Mode) -> Unmanaged<ModeState>? {
    assertOwner()
    guard wanted != .common else { return nil }
    if let known = findModeUnretained(wanted.id) {
      return known._withUnsafeGuaranteedRef({ isEmpty($0) }) ? nil : known
    }
    guard ring.contains(where: { $0 == wanted.id || ($0 < 0 && ModeSets.contains($0, wanted.id)) }) else { return nil }
    return Unmanaged.passUnretained(makeMode(wanted.id))
  }

  @inline(__always)
  private func passes(_ mode: ModeState, limit: Int64, onlyOneSource: Bool) -> RunResult {
    assertOwner()
    if takeStop() { return .stopped }
    // One event at a time if one source ends the run: the kernel then serves ready descriptors in turn, and no one
    // twice.
    let events = UnsafeMutableBufferPointer(
      start: depth == 1 ? eventBuffer : nestedEventBuffer(), count: onlyOneSource ? 1 : Self.eventCapacity)
    var servedMainQueue = false
    while true {
      let (handled, served) = pass(
        mode, events, limit: limit, onlyOneSource: onlyOneSource, servedMainQueue: servedMainQueue)
      servedMainQueue = served
      if handled && onlyOneSource { return .handledSource }
      if limit != .max && (limit == .min || limit <= clinux_monotonic()) { return .timedOut }
      if takeStop() { return .stopped }
      if isEmpty(mode) { return .finished }
    }
  }

  /// Where a nested run has its events, as the outer one is not through with its own.
  ///
  /// Kept for the next time.
  @inline(never)
  private func nestedEventBuffer() -> UnsafeMutablePointer<epoll_event> {
    assertOwner()
    while nestedEventBuffers.count < depth - 1 { nestedEventBuffers.append(.allocate(capacity: Self.eventCapacity)) }
    return nestedEventBuffers[depth - 2]
  }

  @inline(__always)
  private var isStopping: Bool { stopRequested.load(ordering: .relaxed) || isEnding }

  /// Whether all runs end; those that an ending thread has for what is left do not, but all within them.
  @inline(__always)
  private var isEnding: Bool { isTerminated.load(ordering: .relaxed) && !(isDraining && depth == 1) }

  @inline(__always)
  private func takeStop() -> Bool {
    if isEnding { return true }
    guard stopRequested.load(ordering: .relaxed) else { return false }
    stopRequested.store(false, ordering: .relaxed)
    return true
  }

  /// One pass; the order is CoreFoundation's.
  @inline(__always)
  private func pass(
    _ mode: ModeState, _ events: UnsafeMutableBufferPointer<epoll_event>, limit: Int64, onlyOneSource: Bool,
    servedMainQueue: Bool
  ) -> (handled: Bool, servedMainQueue: Bool) {
    assertOwner()
    var handled = false
    var mainQueue = mode.watchesMainQueue ? mainQueueDescriptor : -1
    var count = limit == .min ? 0 : pollUnderPlainLoad(mode, events)
    var answer = KernelAnswer(count: count, of: mode, self)
    if count == 0 {
      if published.turnStamps != nil { published.stampBeforeSources() }
      notify(mode, .beforeTimers)
      notify(mode, .beforeSources)
      runBlocks(mode)
      handled = performSignalledSources(mode, onlyOne: onlyOneSource)
      if handled { runBlocks(mode) }

      var isIdle = false
      // A mode that its blocks or sources have left empty has nothing to wait for: CoreFoundation would sleep until
      // somebody wakes it.
      var polls = handled || limit == .min || !ring.isEmpty || isEmpty(mode)
      var latest = limit
      mainQueue = hasMainQueue && mode.isCommon ? mainQueueToServe(mode, &latest) : -1
      if mainQueue >= 0 && !servedMainQueue && !polls && mode.hasWaitingObservers && MainQueue.isReady(mainQueue) {
        serveMainQueue(mainQueue)
        runBlocks(mode)
        return (true, true)
      }

      if mayHaveQuietWork {
        let endsHere = limit == .min && !handled && ring.isEmpty
        isIdle = beginQuietWork(mode, polls: &polls, hasFoundNothing: !polls || endsHere)
      }
      var mayHaveChanged = mode.hasWaitingObservers
      if !polls {
        notify(mode, .beforeWaiting)
        // Now, as what its closure held may leave something to do, or nothing to wait for.
        if releaseSpareTimer() { mayHaveChanged = true }
      }
      absorb()
      let mayBlock = !polls && mayWait(mode, mayHaveChanged: mayHaveChanged)
      let deadline = mayBlock ? min(timerWakeTime(mode), latest) : 0
      if !polls, published.turnStamps != nil { published.stampBeforeWaiting() }
      let lastWork = counters.workBegan
      count = wait(mode, events, deadline: deadline, mayBlock: mayBlock)
      answer = KernelAnswer(count: count, of: mode, self)
      if !polls {
        if published.turnStamps != nil { published.stampAfterWaiting(counters.workBegan(since: lastWork)) }
        notify(mode, .afterWaiting)
      }
      if isIdle && count == 0 && ring.isEmpty && !isStopping && timerWakeTime(mode) > clinux_monotonic() {
        runIdleWork()
      }
    }

    // Another thread may have moved or ended a timer meanwhile.
    absorb()
    if hasTimers(mode) { fireTimers(mode) }
    var served = false
    if count > 0 {
      let result = serve(events, answer, mode, mainQueue)
      handled = result.handled || handled
      served = result.servedMainQueue
    }
    runBlocks(mode)
    return (handled, served)
  }

  /// Whether nothing keeps the loop from sleeping for events.
  ///
  /// A stop that came before a nested run used up its wake-up is still a reason not to sleep; and so are a mode that an observer has left
  /// empty, and what it or another thread has marked or left for idle moments since.
  @_transparent
  private func mayWait(_ mode: ModeState, mayHaveChanged: Bool) -> Bool {
    ring.isEmpty && markedFlushPoints.isEmpty && idleWork.isEmpty && !isStopping && !(mayHaveChanged && isEmpty(mode))
  }

  /// Flushes where the loop would wait, or a run of no time would end, and says whether it is the moment for idle work as well.
  @inline(never)
  private func beginQuietWork(_ mode: ModeState, polls: inout Bool, hasFoundNothing: Bool) -> Bool {
    assertOwner()
    mayHaveQuietWork = !markedFlushPoints.isEmpty || !idleWork.isEmpty
    guard hasFoundNothing, mayHaveQuietWork else { return false }
    if !markedFlushPoints.isEmpty {
      flush()
      absorb()
      polls = polls || isEmpty(mode)
    }
    // What a flush has left to do comes first, and so does a stop; an ending thread leaves its idle work alone.
    if !markedFlushPoints.isEmpty || !ring.isEmpty { polls = true }
    guard !idleWork.isEmpty, ring.isEmpty, !isStopping, !isDraining else { return false }
    polls = true
    return true
  }

  /// How many events the kernel gave, and what was so when it gave them.
  private struct KernelAnswer {
    var count: Int
    var runs: UInt
    var changes: Int
    /// The epoll instance's, see ``Poller``.
    var instance: UInt64

    @_transparent
    init(count: Int, of mode: ModeState, _ loop: Loop) {
      self.count = count
      runs = loop.runCount
      changes = loop.descriptors.changes
      instance = mode.poller.tag
    }
  }

  /// Calls what the events belong to, in the kernel's order.
  @_transparent
  private func serve(
    _ events: UnsafeMutableBufferPointer<epoll_event>, _ answer: KernelAnswer, _ mode: ModeState, _ mainQueue: Int32
  ) -> (handled: Bool, servedMainQueue: Bool) {
    assertOwner()
    var handled = false
    var served = false
    let base = events.baseAddress!
    for index in 0..<answer.count {
      let token = clinux_epoll_token(base + index)
      if token >= Poller.firstSourceToken {
        // The kernel's answer no longer holds for an instance that is gone or another process's: in the child of a fork, or after the program
        // has closed all descriptors.
        if answer.instance != mode.poller.tag || forkCount != clinux_loop_fork_count() { break }
        if token & Poller.tagBits != answer.instance {
          // Another instance has the number of ours.
          descriptorsAreGone()
          break
        }
        if index + 1 < answer.count { DescriptorTable.prefetch(clinux_epoll_token(base + index + 1)) }
        let events = base[index].events
        let isAsAnswered = answer.runs == runCount && answer.changes == descriptors.changes
        // Then the kernel has said what it was asked for and no more, and the source itself need not be checked.
        if isAsAnswered && !mode.poller.mayHoldOrphans && !hasUnmadeChanges
          && !DescriptorSource.Readiness.dependsOnInterest(events)
        {
          call(DescriptorTable.entry(of: token), DescriptorSource.Readiness(epollEvents: events))
          handled = true
        } else if let (entry, source) = descriptors.find(token & ~Poller.tagBits) {
          // An earlier call may have taken it out of the mode, or ended its interest in this; and so may another thread.
          if !isAsAnswered && !isWatching(source, mode) { continue }
          // What was ready before a nested run may have been served by it. If not, its turn is now: a callout that runs the loop in each pass
          // would starve it otherwise.
          let readiness = source.readiness(for: answer.runs == runCount ? events : source.currentEpollEvents)
          if readiness.isEmpty { continue }
          call(entry, readiness)
          handled = true
        } else if isAsAnswered {
          // The descriptor was closed under the watch while its file lives on elsewhere; the kernel offers no other way
          // out.
          reopenPoller(mode)
          break
        }
      } else if token == Poller.mainQueueToken {
        if mainQueue >= 0 {
          serveMainQueue(mainQueue)
          handled = true
          served = true
        } else {
          mainQueueIsPending = true
        }
      }
    }
    return (handled, served)
  }

  // MARK: The main queue

  /// The main queue's descriptor, in the mode's epoll instance; −1 when it must not be served here (from within itself)
  /// or there is none.
  @inline(__always)
  private func mainQueueToServe(_ mode: ModeState, _ latest: inout Int64) -> Int32 {
    assertOwner()
    guard !isServingMainQueue else { return -1 }
    if !mode.watchesMainQueue { watchMainQueue(mode, &latest) }
    return mainQueueDescriptor
  }

  @inline(never)
  private func watchMainQueue(_ mode: ModeState, _ latest: inout Int64) {
    assertOwner()
    do {
      try openPoller(mode)
      if mainQueueDescriptor < 0 { mainQueueDescriptor = MainQueue.descriptor() ?? -1 }
      if mainQueueDescriptor >= 0 {
        try mode.poller.watchEdges(of: mainQueueDescriptor, token: Poller.mainQueueToken)
        mode.watchesMainQueue = true
      }
    } catch {}
    // No descriptor left: the loop wakes by itself to try again, as the queue cannot wake it.
    if !mode.watchesMainQueue { latest = min(latest, clinux_monotonic() + 100_000_000) }
  }

  private func serveMainQueue(_ descriptor: Int32) {
    assertOwner()
    let outer = published.save()
    published.publish(.mainQueue, CallSite())
    isServingMainQueue = true
    repeat {
      mainQueueIsPending = false
      MainQueue.drain(descriptor)
      // A nested run saw the queue ready and had to leave it to us.
    } while mainQueueIsPending
    isServingMainQueue = false
    published.restore(outer)
  }
}
