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
    return inbox.post(control: { self.addOwned(timer, mode.id) }, waking: true)
  }

  /// Makes a timer that fires a while from now, and adds it.
  ///
  /// - Parameters:
  ///   - delay: The time from now to the first firing.
  ///   - repeats: Whether it fires again after each further `delay`.
  ///   - tolerance: How much later than its date it may fire.
  ///   - mode: Where it works.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was made.
  ///   - line: Where it was made.
  ///   - body: Called on the loop's thread with the timer.
  /// - Returns: The timer, for its invalidation.
  @discardableResult
  public func schedule(
    after delay: Duration, repeats: Bool = false, tolerance: Duration = .zero, in mode: Mode = .common,
    name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    body: consuming @escaping @Sendable (Timer) -> Void
  ) -> Timer {
    let timer = Timer(
      after: delay, repeats: repeats, tolerance: tolerance, name: name, file: file, line: line, body: body)
    add(timer, to: mode)
    return timer
  }

  /// Takes a timer out of a mode; it stays valid and in its other modes.
  public func remove(_ timer: Timer, from mode: Mode = .common) {
    guard timer.binding.loop === self else { return }
    if isOwner {
      absorb()
      removeOwned(timer, mode.id)
    } else {
      _ = inbox.post(control: { self.removeOwned(timer, mode.id) }, waking: false)
    }
  }

  /// Whether a timer was added to exactly this mode (`.common` being the set).
  ///
  /// On the loop's thread only.
  public func contains(_ timer: Timer, in mode: Mode) -> Bool {
    requireOwner()
    absorb()
    guard timer.binding.loop === self else { return false }
    return timer.key == mode.id || timer.others?.contains { $0.key == mode.id } ?? false
  }

  // MARK: On the loop's thread

  private func addOwned(_ timer: Timer, _ key: Int32) {
    guard timer.isValid, timer.key != key else { return }
    if timer.key == Timer.noKey {
      timer.key = key
      _ = Unmanaged.passRetained(timer)
    } else {
      if timer.others?.contains(where: { $0.key == key }) ?? false { return }
      timer.others = (timer.others ?? []) + [(key, -1)]
    }
    if !timer.isFiring { insert(timer, key) }
  }

  private func removeOwned(_ timer: Timer, _ key: Int32) {
    if timer.key == key {
      takeOut(timer, key, timer.heapIndex)
      timer.heapIndex = -1
      if let other = timer.others?.popLast() {
        timer.key = other.key
        timer.heapIndex = other.heapIndex
      } else {
        timer.key = Timer.noKey
        Unmanaged.passUnretained(timer).release()
      }
    } else if let position = timer.others?.firstIndex(where: { $0.key == key }), let other = timer.others?[position] {
      takeOut(timer, key, other.heapIndex)
      timer.others?.remove(at: position)
    }
  }

  @inline(__always)
  private func insert(_ timer: Timer, _ key: Int32) {
    let mode = key == Mode.common.id ? commonItems : makeMode(key)
    timer.sequence = takeSequence()
    timer.countsAsTolerant = timer.toleranceNanoseconds > 0
    if timer.countsAsTolerant { mode.timers.tolerantCount &+= 1 }
    // What is added while timers fire waits for the next pass, however past its date is.
    let deadline =
      timer.deadlineNanoseconds > firingLimit ? timer.deadlineNanoseconds : firingLimit.addingSaturated(1)
    mode.timers.insert(Unmanaged.passUnretained(timer), deadline: deadline)
  }

  @inline(__always)
  private func takeOut(_ timer: Timer, _ key: Int32, _ heapIndex: Int) {
    guard heapIndex >= 0 else { return }
    let mode = key == Mode.common.id ? commonItems : makeMode(key)
    mode.timers.remove(at: heapIndex)
    if timer.countsAsTolerant { mode.timers.tolerantCount &-= 1 }
  }

  private func takeOutOfAllHeaps(_ timer: Timer) {
    if timer.key != Timer.noKey {
      takeOut(timer, timer.key, timer.heapIndex)
      timer.heapIndex = -1
    }
    if let others = timer.others {
      for (position, other) in others.enumerated() {
        takeOut(timer, other.key, other.heapIndex)
        timer.others?[position].heapIndex = -1
      }
    }
  }

  private func insertIntoAllHeaps(_ timer: Timer) {
    if timer.key == Timer.noKey { return }
    insert(timer, timer.key)
    for other in timer.others ?? [] { insert(timer, other.key) }
  }

  /// A date or a tolerance was set.
  func timerDidMove(_ timer: Timer) {
    if isOwner {
      absorb()
      moveOwned(timer)
    } else {
      _ = inbox.post(control: { self.moveOwned(timer) }, waking: true)
    }
  }

  private func moveOwned(_ timer: Timer) {
    if timer.isFiring {
      timer.wasMovedWhileFiring = true
    } else if timer.isValid {
      takeOutOfAllHeaps(timer)
      insertIntoAllHeaps(timer)
    }
  }

  func timerDidBecomeInvalid(_ timer: Timer) {
    if isOwner {
      absorb()
      discard(timer)
    } else {
      _ = inbox.post(control: { self.discard(timer) }, waking: false)
    }
  }

  private func discard(_ timer: Timer) {
    if timer.heapIndex >= 0 || timer.others != nil { takeOutOfAllHeaps(timer) }
    let wasScheduled = timer.key != Timer.noKey
    timer.key = Timer.noKey
    timer.others = nil
    timer.body = nil
    if wasScheduled { Unmanaged.passUnretained(timer).release() }
  }

  // MARK: Firing

  /// The next time to wake for a mode's timers, `.max` for never.
  @inline(__always)
  func timerWakeTime(_ mode: ModeState) -> Int64 {
    let own = mode.timers.count == 0 ? Int64.max : mode.timers.wakeTime()
    let common = mode.isCommon && commonItems.timers.count != 0 ? commonItems.timers.wakeTime() : .max
    return min(own, common)
  }

  @inline(__always)
  func hasTimers(_ mode: ModeState) -> Bool {
    mode.timers.count != 0 || (mode.isCommon && commonItems.timers.count != 0)
  }

  /// Fires what is due now, in the order of the dates.
  ///
  /// Whatever a closure does to other timers holds at once.
  func fireTimers(_ mode: ModeState) {
    let now = clinux_monotonic()
    if min(mode.timers.firstDeadline, mode.isCommon ? commonItems.timers.firstDeadline : .max) > now { return }
    let outerLimit = firingLimit
    firingLimit = now
    let outer = published.save()
    while true {
      let useCommon = mode.isCommon && commonItems.timers.firstDeadline < mode.timers.firstDeadline
      let heap = useCommon ? commonItems : mode
      if heap.timers.firstDeadline > now { break }
      fire(heap.timers.first)
    }
    published.restore(outer)
    firingLimit = outerLimit
  }

  @inline(__always)
  private func fire(_ reference: Unmanaged<Timer>) {
    // The heap's own reference keeps the timer until `discard`, which may come from within the closure: hold one more.
    let timer = reference.takeUnretainedValue()
    takeOutOfAllHeaps(timer)
    guard timer.isValid else { return }
    published.publish(.timer, timer.origin)
    timer.isFiring = true
    timer.wasMovedWhileFiring = false
    if let body = timer.body { body(timer) }
    timer.isFiring = false
    guard timer.isValid else { return }
    if timer.intervalNanoseconds == 0 {
      timer.invalidate()
      return
    }
    if !timer.wasMovedWhileFiring {
      timer.setDeadline(
        Timer.nextDeadline(
          after: clinux_monotonic(), due: timer.deadlineNanoseconds, interval: timer.intervalNanoseconds))
    }
    insertIntoAllHeaps(timer)
  }
}
