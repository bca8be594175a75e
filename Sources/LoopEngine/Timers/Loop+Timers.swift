import CLinux

extension Loop {
  /// Adds a timer to a mode, or to all common ones.
  ///
  /// Adding it twice changes nothing.
  ///
  /// - Returns: False when the timer is invalid or belongs to another loop, or when the loop's thread has ended.
  @discardableResult
  public func add(_ timer: Timer, to mode: Mode = .common) -> Bool {
    guard timer.isValid, timer.binding.bind(to: self) else { return false }
    if isOwner {
      absorb()
      addOwned(timer, mode.id)
      return true
    }
    return postAddition(of: timer, to: mode)
  }

  // Apart, so that the owner's way makes no space for a closure.
  @inline(never)
  private func postAddition(of timer: Timer, to mode: Mode) -> Bool {
    changeMembership(of: timer, mode.id, isAddition: true, waking: true) { self.addOwned(timer, mode.id) }
  }

  /// Runs a closure once after a delay: makes a timer and adds it.
  ///
  /// - Parameters:
  ///   - delay: The time from now to the call.
  ///   - tolerance: How much later the call may be.
  ///   - mode: Where it works.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was made.
  ///   - line: Where it was made.
  ///   - body: Called on the loop's thread with the timer.
  /// - Returns: The timer: `invalidate()` cancels the call, `nextFireDate` moves it.
  @discardableResult
  public func perform(
    after delay: Duration, tolerance: Duration = .zero, in mode: Mode = .common, name: StaticString? = nil,
    file: StaticString = #fileID, line: UInt32 = #line, _ body: sending @escaping (Timer) -> Void
  ) -> Timer {
    let timer = Timer(after: delay, tolerance: tolerance, name: name, file: file, line: line, body: body)
    add(timer, to: mode)
    return timer
  }

  /// Runs a closure once after a delay, in the first of several modes that is served then.
  ///
  /// - Parameters:
  ///   - delay: The time from now to the call.
  ///   - tolerance: How much later the call may be.
  ///   - modes: Where it works.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was made.
  ///   - line: Where it was made.
  ///   - body: Called on the loop's thread with the timer.
  /// - Returns: The timer: `invalidate()` cancels the call, `nextFireDate` moves it.
  @discardableResult
  public func perform(
    after delay: Duration, tolerance: Duration = .zero, in modes: [Mode], name: StaticString? = nil,
    file: StaticString = #fileID, line: UInt32 = #line, _ body: sending @escaping (Timer) -> Void
  ) -> Timer {
    let timer = Timer(after: delay, tolerance: tolerance, name: name, file: file, line: line, body: body)
    for mode in modes { add(timer, to: mode) }
    return timer
  }

  /// Runs a closure repeatedly, for the first time after one interval: makes a timer and adds it.
  ///
  /// - Parameters:
  ///   - interval: The time between calls, counted from now; a tenth of a millisecond if it is not positive.
  ///   - tolerance: How much later than its date a call may be.
  ///   - mode: Where it works.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was made.
  ///   - line: Where it was made.
  ///   - body: Called on the loop's thread with the timer.
  /// - Returns: The timer, for its invalidation.
  @discardableResult
  public func perform(
    every interval: Duration, tolerance: Duration = .zero, in mode: Mode = .common, name: StaticString? = nil,
    file: StaticString = #fileID, line: UInt32 = #line, _ body: sending @escaping (Timer) -> Void
  ) -> Timer {
    let timer = Timer(
      after: interval, repeats: true, tolerance: tolerance, name: name, file: file, line: line, body: body)
    add(timer, to: mode)
    return timer
  }

  /// Runs a closure repeatedly, for the first time after one interval, in whichever of several modes is served.
  ///
  /// - Parameters:
  ///   - interval: The time between calls, counted from now; a tenth of a millisecond if it is not positive.
  ///   - tolerance: How much later than its date a call may be.
  ///   - modes: Where it works.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was made.
  ///   - line: Where it was made.
  ///   - body: Called on the loop's thread with the timer.
  /// - Returns: The timer, for its invalidation.
  @discardableResult
  public func perform(
    every interval: Duration, tolerance: Duration = .zero, in modes: [Mode], name: StaticString? = nil,
    file: StaticString = #fileID, line: UInt32 = #line, _ body: sending @escaping (Timer) -> Void
  ) -> Timer {
    let timer = Timer(
      after: interval, repeats: true, tolerance: tolerance, name: name, file: file, line: line, body: body)
    for mode in modes { add(timer, to: mode) }
    return timer
  }

  /// Takes a timer out of a mode; it stays valid and in its other modes.
  public func remove(_ timer: Timer, from mode: Mode = .common) {
    guard timer.binding.isBound(to: self) else { return }
    if isOwner {
      absorb()
      removeOwned(timer, mode.id)
    } else {
      postRemoval(of: timer, from: mode)
    }
  }

  @inline(never)
  private func postRemoval(of timer: Timer, from mode: Mode) {
    changeMembership(of: timer, mode.id, isAddition: false, waking: false) { self.removeOwned(timer, mode.id) }
  }

  /// Whether a timer was added to exactly this mode; `.common` counts as a mode of its own.
  ///
  /// On another thread, additions and removals that other threads have requested count as made. The call takes a short
  /// lock, which the loop never holds during a callout.
  public func contains(_ timer: Timer, in mode: Mode) -> Bool {
    timer.binding.isBound(to: self)
      && isMember(timer, of: mode, isValid: timer.isValid) {
        timer.has(mode.id) || (mode == .common && timer.has(Timer.spreadKey))
      }
  }

  // MARK: On the loop's thread

  func addOwned(_ timer: Timer, _ key: Int32) {
    assertOwner()
    guard timer.isValid, timer.key != key else { return }
    guard timer.key == Timer.noKey else {
      if key == Mode.common.id && timer.has(Timer.spreadKey) { return gather(timer) }
      if timer.others?.contains(where: { $0.key == key }) ?? false { return }
      let slot = timer.isFiring ? TimerHeap.noSlot : insert(timer, key)
      memberships.withLock { _ in timer.others = (timer.others ?? []) + [(key, slot)] }
      return
    }
    timer.key = key
    if timer.isFiringOnce { return }
    if let spare = spareTimer, spare.toOpaque() == Unmanaged.passUnretained(timer).toOpaque() {
      spareTimer = nil
    } else {
      _ = Unmanaged.passRetained(timer)
    }
    if !timer.isFiring { timer.slot = insert(timer, key) }
  }

  private func removeOwned(_ timer: Timer, _ key: Int32) {
    assertOwner()
    if timer.key == key && timer.others == nil { leaveOnlyMode(timer) } else { removeFromSeveral(timer, key) }
  }

  @inline(__always)
  func leaveOnlyMode(_ timer: Timer) {
    assertOwner()
    takeOut(timer, timer.key, timer.slot)
    timer.slot = TimerHeap.noSlot
    timer.key = Timer.noKey
    if timer.isFiringOnce { return }
    let former = spareTimer
    spareTimer = Unmanaged.passUnretained(timer)
    former?.release()
  }

  /// Puts a timer into the heap of a mode, and returns its slot there.
  @inline(__always)
  private func insert(_ timer: Timer, _ key: Int32) -> Int32 {
    assertOwner()
    let heap = heap(key)
    timer.countsAsTolerant = timer.toleranceNanoseconds > 0
    if timer.countsAsTolerant { heap.pointee.tolerantCount &+= 1 }
    // What is added while timers fire waits for the next pass, however past its date is.
    let deadline =
      timer.deadlineNanoseconds > firingLimit ? timer.deadlineNanoseconds : firingLimit.addingSaturated(1)
    return heap.pointee.insert(Unmanaged.passUnretained(timer), deadline: deadline)
  }

  @inline(__always)
  func takeOut(_ timer: Timer, _ key: Int32, _ slot: Int32) {
    assertOwner()
    guard slot != TimerHeap.noSlot else { return }
    let heap = heap(key)
    heap.pointee.remove(slot: slot)
    if timer.countsAsTolerant { heap.pointee.tolerantCount &-= 1 }
  }

  private func takeOutOfAllHeaps(_ timer: Timer) {
    assertOwner()
    if timer.key != Timer.noKey {
      takeOut(timer, timer.key, timer.slot)
      timer.slot = TimerHeap.noSlot
    }
    if let others = timer.others {
      for (position, other) in others.enumerated() {
        takeOut(timer, other.key, other.slot)
        timer.others?[position].slot = TimerHeap.noSlot
      }
    }
  }

  private func insertIntoAllHeaps(_ timer: Timer) {
    assertOwner()
    if timer.key == Timer.noKey { return }
    timer.slot = insert(timer, timer.key)
    if let others = timer.others {
      for (position, other) in others.enumerated() { timer.others?[position].slot = insert(timer, other.key) }
    }
  }

  /// A date or a tolerance was set.
  func timerDidChange(_ timer: Timer, isMove: Bool) {
    if isOwner {
      absorb()
      changeOwned(timer, isMove: isMove)
    } else {
      postChange(of: timer, isMove: isMove)
    }
  }

  @inline(never)
  private func postChange(of timer: Timer, isMove: Bool) {
    _ = inbox.post(control: { self.changeOwned(timer, isMove: isMove) }, waking: true)
  }

  private func changeOwned(_ timer: Timer, isMove: Bool) {
    assertOwner()
    if timer.isFiring {
      // It is put back afterwards.
      if isMove { timer.wasMovedWhileFiring = true }
    } else if timer.key != Timer.noKey && timer.isValid {
      takeOutOfAllHeaps(timer)
      insertIntoAllHeaps(timer)
    }
  }

  func timerDidBecomeInvalid(_ timer: Timer) {
    if isOwner {
      absorb()
      discard(timer)
    } else {
      postDiscard(of: timer)
    }
  }

  @inline(never)
  private func postDiscard(of timer: Timer) {
    // Of a loop that has ended nobody else touches it.
    if !inbox.post(control: { self.discard(timer) }, waking: false) { timer.body = nil }
  }

  @inline(__always)
  private func heap(_ key: Int32) -> UnsafeMutablePointer<TimerHeap> {
    key == Mode.common.id ? commonTimers : makeMode(key).timers
  }

  /// Releases the timer that was kept for rescheduling.
  ///
  /// Returns false if there was none.
  @inline(__always)
  @discardableResult
  func releaseSpareTimer() -> Bool {
    assertOwner()
    guard let spare = spareTimer else { return false }
    spareTimer = nil
    spare.release()
    return true
  }

  private func discard(_ timer: Timer) {
    assertOwner()
    if timer.slot != TimerHeap.noSlot || timer.others != nil { takeOutOfAllHeaps(timer) }
    let wasScheduled = timer.key != Timer.noKey && !timer.isFiringOnce
    timer.key = Timer.noKey
    if timer.others != nil { memberships.withLock { _ in timer.others = nil } }
    timer.body = nil
    if wasScheduled { Unmanaged.passUnretained(timer).release() }
  }

  // MARK: Firing

  /// The next time to wake for a mode's timers, `.max` for never.
  @inline(__always)
  func timerWakeTime(_ mode: ModeState) -> Int64 {
    assertOwner()
    let own = mode.timers.pointee.count == 0 ? Int64.max : mode.timers.pointee.wakeTime()
    let common = mode.isCommon && commonTimers.pointee.count != 0 ? commonTimers.pointee.wakeTime() : .max
    return min(own, common)
  }

  @inline(__always)
  func hasTimers(_ mode: ModeState) -> Bool {
    assertOwner()
    return mode.timers.pointee.count != 0 || (mode.isCommon && commonTimers.pointee.count != 0)
  }

  /// Whether a timer that is firing belongs to a mode: it does until its closure has returned, also for a nested run.
  func isFiringTimer(in mode: ModeState) -> Bool {
    assertOwner()
    guard let firingTimer else { return false }
    return ([firingTimer] + outerFiringTimers).contains {
      $0._withUnsafeGuaranteedRef { timer in
        timer.key != Timer.noKey
          && (matches(timer.key, mode) || timer.others?.contains { matches($0.key, mode) } ?? false)
      }
    }
  }

  /// Fires what is due now, in the order of the dates.
  ///
  /// Whatever a closure does to other timers holds at once.
  func fireTimers(_ mode: ModeState) {
    assertOwner()
    let now = clinux_monotonic()
    let own = mode.timers
    let common = mode.isCommon ? commonTimers : own
    if min(own.pointee.firstDeadline, common.pointee.firstDeadline) > now { return }
    let outerLimit = firingLimit
    firingLimit = now
    let outer = published.save()
    let outerFiring = firingTimer
    if let outerFiring { outerFiringTimers.append(outerFiring) }
    while true {
      let heap = common.pointee.firstDeadline < own.pointee.firstDeadline ? common : own
      if heap.pointee.firstDeadline > now { break }
      let reference = heap.pointee.first
      reference._withUnsafeGuaranteedRef { timer in
        takeOutOfAllHeaps(timer)
        firingTimer = reference
        if timer.intervalNanoseconds == 0 { fireOnce(timer) } else { fireRepeatedly(timer, isDue: true) }
      }
    }
    if outerFiring != nil { outerFiringTimers.removeLast() }
    firingTimer = outerFiring
    published.restore(outer)
    firingLimit = outerLimit
  }

  /// Fires a timer that need not be due; false if it fires already, or no longer can.
  func fireNow(_ timer: Timer) -> Bool {
    assertOwner()
    guard timer.isValid, !timer.isFiring else { return false }
    let outer = published.save()
    let outerFiring = firingTimer
    if let outerFiring { outerFiringTimers.append(outerFiring) }
    firingTimer = Unmanaged.passUnretained(timer)
    takeOutOfAllHeaps(timer)
    if timer.intervalNanoseconds == 0 {
      // Without a mode it has no reference of the loop's, which the firing releases.
      if timer.key == Timer.noKey { _ = Unmanaged.passRetained(timer) }
      fireOnce(timer)
    } else {
      fireRepeatedly(timer, isDue: false)
    }
    if outerFiring != nil { outerFiringTimers.removeLast() }
    firingTimer = outerFiring
    published.restore(outer)
    return true
  }

  /// Fires a timer for the only time.
  ///
  /// The loop's own reference keeps it alive meanwhile, whatever becomes of its modes, and is released at the end.
  @inline(__always)
  private func fireOnce(_ timer: Timer) {
    assertOwner()
    if timer.isValid {
      published.publish(.timer, timer.callSite)
      timer.isFiring = true
      timer.isFiringOnce = true
      if let body = timer.body.take() { body(timer) }
      timer.isFiring = false
      timer.isFiringOnce = false
      timer.valid.store(false, ordering: .releasing)
    }
    timer.key = Timer.noKey
    if timer.others != nil { memberships.withLock { _ in timer.others = nil } }
    Unmanaged.passUnretained(timer).release()
  }

  /// Fires a timer, and puts it back; one that was not due keeps its date.
  private func fireRepeatedly(_ timer: Timer, isDue: Bool) {
    assertOwner()
    guard timer.isValid else { return }
    published.publish(.timer, timer.callSite)
    // The closure may make the loop release the timer.
    let reference = Unmanaged.passRetained(timer)
    defer { reference.release() }
    let due = timer.deadlineNanoseconds
    timer.isFiring = true
    timer.wasMovedWhileFiring = false
    if let body = timer.body { body(timer) }
    timer.isFiring = false
    guard timer.isValid else { return }
    if !timer.wasMovedWhileFiring {
      let interval = timer.intervalNanoseconds
      if interval == 0 { return timer.invalidate() }
      if isDue { timer.advance(from: due, by: interval, now: clinux_monotonic()) }
    }
    insertIntoAllHeaps(timer)
  }
}
