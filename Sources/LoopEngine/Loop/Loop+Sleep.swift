import CLinux
import PlatformLibc
import Synchronization

extension Loop {
  /// Looks for events, and sleeps for them if asked to: the only place where a loop's thread waits.
  ///
  /// - Parameters:
  ///   - mode: Whose descriptors count.
  ///   - events: Where the kernel writes what it found.
  ///   - deadline: The latest time to return, `.max` for never; ignored unless `mayBlock`.
  ///   - mayBlock: Whether to sleep when there is nothing.
  /// - Returns: How many events there are.
  // Transparent: as `@inline(__always)` it is left out of a run that has grown too large, and costs a return (see `run`).
  @_transparent
  func wait(
    _ mode: ModeState, _ events: UnsafeMutableBufferPointer<epoll_event>, deadline: Int64, mayBlock: Bool
  ) -> Int {
    assertOwner()
    noticeFork()
    if !mode.poller.isOpen {
      switch openPollerOrSleep(mode, deadline: deadline, mayBlock: mayBlock) {
      case .slept: return 0
      case .reopened: return poll(mode, events, timeout: 0)
      case .opened: break
      }
    }
    if !mayBlock { return poll(mode, events, timeout: 0) }
    // Under load there is something already: then there is no timer to set, no sleep to announce and no wait to measure.
    if counters.isSaturated {
      let count = poll(mode, events, timeout: 0)
      counters.looked(andFound: count > 0)
      if count > 0 || !mode.poller.isOpen { return count }
    }
    if deadline != .max && !arm(deadline) { return poll(mode, events, timeout: 0) }
    // Announced before the last check of the inbox, inside its lock: a post comes either before this and is seen, or
    // after it and wakes.
    let timeout: Int32 = inbox.prepareToSleep() ? -1 : 0
    counters.waitBegins()
    published.setWaiting(true)
    let count = poll(mode, events, timeout: timeout)
    published.setWaiting(false)
    counters.waitEnded(andFound: count > 0)
    inbox.finishSleep()
    return count
  }

  /// Looks for events first where nothing else can be to be done before them: under load, in a loop that nobody observes.
  ///
  /// - Returns: How many there are; 0 also where it has not looked.
  @_transparent
  func pollUnderPlainLoad(_ mode: ModeState, _ events: UnsafeMutableBufferPointer<epoll_event>) -> Int {
    assertOwner()
    guard counters.isSaturated, !inbox.mayHaveWork, ring.isEmpty, signalledSources.isEmpty, !mayHaveQuietWork,
      spareTimer == nil, mode.observerGeneration == observerGeneration,
      mode.observerMask & Activity.inEachPass.rawValue == 0, mode.watchesMainQueue || !hasMainQueue || !mode.isCommon,
      !isServingMainQueue, mode.poller.isOpen, forkCount == clinux_loop_fork_count()
    else { return 0 }
    let count = poll(mode, events, timeout: 0)
    counters.looked(andFound: count > 0)
    // A turn that follows the last one without a wait.
    if count > 0, published.turnStamps != nil { published.stampAfterWaiting(counters.workBegan) }
    return count
  }

  private enum Opening {
    case opened
    /// In the place of one that has gone; watches may have ended with it, so what the sleep was to be for may no longer hold.
    case reopened
    case slept
  }

  /// Opens a mode's epoll instance; where there is no descriptor for it, sleeps without one, if asked to.
  @inline(never)
  private func openPollerOrSleep(_ mode: ModeState, deadline: Int64, mayBlock: Bool) -> Opening {
    assertOwner()
    let hadWatches = mode.poller.hasLapsed
    do {
      try openPoller(mode)
      return hadWatches ? .reopened : .opened
    } catch {
      if mayBlock { sleepWithoutDescriptors(deadline: deadline) }
      return .slept
    }
  }

  @inline(__always)
  private func poll(_ mode: ModeState, _ events: UnsafeMutableBufferPointer<epoll_event>, timeout: Int32) -> Int {
    assertOwner()
    let count = Int(clinux_epoll_wait(mode.poller.epoll, events.baseAddress, Int32(events.count), timeout))
    if count > 0 {
      if events.count == 1 && isOwnEvent(events) { return pollBehindOwnEvent(mode, events) }
      DescriptorTable.prefetch(clinux_epoll_token(events.baseAddress!))
      return count
    }
    if count < 0 { pollFailed(Int32(-count)) }
    return 0
  }

  /// Whether an event says no more than that the loop is awake; that of the main queue does where it can't be served.
  @inline(__always)
  private func isOwnEvent(_ events: UnsafeMutableBufferPointer<epoll_event>) -> Bool {
    assertOwner()
    let token = clinux_epoll_token(events.baseAddress!)
    return token < Poller.firstSourceToken && (token != Poller.mainQueueToken || isServingMainQueue)
  }

  /// Asks again where there was space for one event and the loop's own has taken it: watched for edges, it comes once.
  @inline(never)
  private func pollBehindOwnEvent(_ mode: ModeState, _ events: UnsafeMutableBufferPointer<epoll_event>) -> Int {
    assertOwner()
    if clinux_epoll_token(events.baseAddress!) == Poller.mainQueueToken { mainQueueIsPending = true }
    return poll(mode, events, timeout: 0)
  }

  /// A signal handler's EINTR is a wake-up like any other.
  @inline(never)
  private func pollFailed(_ error: Int32) { if error != EINTR { descriptorsAreGone() } }

  /// The program has closed descriptors that it does not know, as some do to become daemons: the loop makes new ones,
  /// instead of asking for ever.
  ///
  /// The old numbers are left alone, whosever they are now.
  @inline(never)
  func descriptorsAreGone() {
    assertOwner()
    inbox.wakeDescriptor.store(-1, ordering: .relaxed)
    timerDescriptor = -1
    armedDeadline = .max
    for mode in modes.compactMap({ $0 }) { mode.poller.abandon() }
  }

  /// Ensures that the timerfd fires at `deadline`, or earlier if it is already set to an earlier time; false if
  /// `deadline` is not in the future, or if there was no descriptor for the timerfd and the thread has slept without it.
  ///
  /// A cancelled timer can therefore cost one wake-up. In return, a cancellation needs no system call.
  @inline(never)
  private func arm(_ deadline: Int64) -> Bool {
    assertOwner()
    let now = clinux_monotonic()
    if deadline <= now { return false }
    if armedDeadline <= deadline && armedDeadline > now { return true }
    do { try ensureTimerDescriptor() } catch {
      // No descriptor left: sleep in small steps until there is one.
      sleepWithoutDescriptors(deadline: min(deadline, now + 10_000_000))
      return false
    }
    var time = itimerspec()
    time.it_value.tv_sec = Int(deadline / 1_000_000_000)
    time.it_value.tv_nsec = Int(deadline % 1_000_000_000)
    timerfd_settime(timerDescriptor, Int32(TFD_TIMER_ABSTIME), &time, nil)
    armedDeadline = deadline
    return true
  }

  /// Sleeps on a word of memory: what is left when the process has no descriptor for epoll.
  ///
  /// Timers and wake-ups work, descriptors cannot be watched.
  @inline(never)
  private func sleepWithoutDescriptors(deadline: Int64) {
    assertOwner()
    let word = inbox.sleepWord.load(ordering: .acquiring)
    guard inbox.prepareToSleep() else { return }
    // A second at most: descriptors may be there again.
    let wanted =
      deadline == .max ? 1_000_000_000 : min(1_000_000_000, deadline.subtractingSaturated(clinux_monotonic()))
    var time = timespec(tv_sec: 0, tv_nsec: 0)
    time.tv_sec = Int(max(0, wanted) / 1_000_000_000)
    time.tv_nsec = Int(max(0, wanted) % 1_000_000_000)
    counters.waitBegins()
    published.setWaiting(true)
    withUnsafePointer(to: inbox.sleepWord) { _ = clinux_futex_wait($0, word, &time) }
    published.setWaiting(false)
    counters.waitEnded(andFound: false)
    inbox.finishSleep()
  }

  /// In the child of a fork: leaves the epoll instances, the eventfd and the timerfd to the parent and makes new ones.
  @inline(never)
  func recoverFromFork() {
    forkCount = clinux_loop_fork_count()
    published.bindToThisThread()
    inbox.recoverFromFork()
    knownModes.reset()
    memberships.reset()
    LoopDescriptorKind.timer.closeInherited(timerDescriptor)
    timerDescriptor = -1
    armedDeadline = .max
    // All are closed before the first is opened: an inherited one must neither be changed nor taken for ours.
    let open = modes.compactMap { $0 }.filter { $0.poller.isOpen }
    for mode in open { mode.poller.closeInherited() }
    for mode in open { try? openPoller(mode) }
  }

  /// Sees to it that nothing is done to the parent's descriptors in the child of a fork.
  @inline(__always)
  func noticeFork() {
    if forkCount != clinux_loop_fork_count() { recoverFromFork() }
  }
}
