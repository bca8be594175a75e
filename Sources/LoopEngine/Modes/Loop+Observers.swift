import CLinux

extension Loop {
  /// Adds an observer to a mode, or to all common ones.
  ///
  /// Adding it twice changes nothing.
  ///
  /// - Returns: False when the observer is invalid or belongs to another loop, or when the loop's thread has ended.
  @discardableResult
  public func add(_ observer: Observer, to mode: Mode = .common) -> Bool {
    guard observer.isValid, observer.binding.bind(to: self) else { return false }
    return changeMembership(of: observer, mode.id, isAddition: true, waking: false) { self.addOwned(observer, mode.id) }
  }

  /// Makes an observer and adds it.
  ///
  /// - Parameters:
  ///   - activities: When to call it.
  ///   - mode: Where it works.
  ///   - order: Its place among other observers, ascending.
  ///   - repeats: False for an observer that is called once.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was made.
  ///   - line: Where it was made.
  ///   - body: Called on the loop's thread with the observer and the one activity.
  /// - Returns: The observer, for its removal.
  @discardableResult
  public func observe(
    _ activities: Activity, in mode: Mode = .common, order: Int = 0, repeats: Bool = true, name: StaticString? = nil,
    file: StaticString = #fileID, line: UInt32 = #line, body: sending @escaping (Observer, Activity) -> Void
  ) -> Observer {
    let observer = Observer(activities, order: order, repeats: repeats, name: name, file: file, line: line, body: body)
    add(observer, to: mode)
    return observer
  }

  /// Takes an observer out of a mode; it stays valid and in its other modes.
  public func remove(_ observer: Observer, from mode: Mode) {
    guard observer.binding.loop === self else { return }
    changeMembership(of: observer, mode.id, isAddition: false, waking: false) { self.removeOwned(observer, mode.id) }
  }

  /// Takes an observer out of all modes.
  func remove(_ observer: Observer) {
    change(waking: false) { for key in observer.keys.added { self.removeOwned(observer, key) } }
  }

  /// Whether an observer was added to exactly this mode; `.common` counts as a mode of its own.
  ///
  /// On another thread, additions and removals that other threads have requested count as made. The call takes a short
  /// lock, which the loop never holds during a callout.
  public func contains(_ observer: Observer, in mode: Mode) -> Bool {
    observer.binding.loop === self
      && isMember(observer, of: mode, isValid: observer.isValid) { observer.keys.contains(mode.id) }
  }

  // MARK: On the loop's thread

  private func addOwned(_ observer: Observer, _ key: Int32) {
    assertOwner()
    guard observer.isValid, !observer.keys.contains(key) || observer.keys.hasExceptions else { return }
    if key >= 0 { _ = makeMode(key) }
    if observer.keys.isEmpty {
      observer.sequence = takeSequence()
      observers.append(observer)
    }
    memberships.withLock { _ in
      observer.keys.add(key)
      if key == Mode.common.id { _ = observer.keys.takeExceptions() }
    }
    observerGeneration &+= 1
  }

  private func removeOwned(_ observer: Observer, _ key: Int32) {
    assertOwner()
    guard !observer.keys.isEmpty else { return }
    memberships.withLock { _ in
      if let mode = findMode(key), observer.keys.isCommonItem(in: mode) { observer.keys.except(key) }
      observer.keys.remove(key)
    }
    if observer.keys.isEmpty { observers.removeAll { $0 === observer } }
    observerGeneration &+= 1
  }

  /// Calls the observers of an activity: one comparison and one test when there are none.
  @inline(__always)
  func notify(_ mode: ModeState, _ activity: Activity) {
    if mode.observerGeneration != observerGeneration { rebuildObservers(of: mode) }
    if mode.observerMask & activity.rawValue != 0 { callObservers(of: mode, activity) }
  }

  private func callObservers(of mode: ModeState, _ activity: Activity) {
    assertOwner()
    // The table stays as it is while somebody walks through it; changes make a new one.
    observerDepth &+= 1
    let generation = observerGeneration
    for entry in UnsafeBufferPointer(mode.observers) where entry.mask & activity.rawValue != 0 {
      entry.observer._withUnsafeGuaranteedRef { observer in
        let isPresent = generation == observerGeneration || isObserving(observer, mode)
        if isPresent && !observer.isFiring && observer.isValid { fire(observer, activity) }
      }
    }
    observerDepth &-= 1
    if observerDepth == 0 && !retiredTables.isEmpty { freeRetiredTables() }
  }

  @inline(__always)
  private func fire(_ observer: Observer, _ activity: Activity) {
    assertOwner()
    let outer = published.save()
    published.publish(.observer, observer.callSite)
    observer.isFiring = true
    observer.call(activity)
    if !observer.repeats { observer.invalidate() }
    observer.isFiring = false
    published.restore(outer)
  }

  private func isObserving(_ observer: Observer, _ mode: ModeState) -> Bool {
    observer.keys.isIn(mode)
  }

  @inline(never)
  private func rebuildObservers(of mode: ModeState) {
    assertOwner()
    let present = observers.filter { isObserving($0, mode) }
      .sorted { ($0.order, $0.sequence) < ($1.order, $1.sequence) }
    let table = UnsafeMutableBufferPointer<ObserverEntry>.allocate(capacity: present.count)
    var mask: UInt = 0
    var waits = false
    for (position, observer) in present.enumerated() {
      mask |= observer.activities.rawValue
      if !observer.activities.isDisjoint(with: [.beforeWaiting, .afterWaiting]) { waits = true }
      table.initializeElement(
        at: position,
        to: ObserverEntry(mask: observer.activities.rawValue, observer: .passRetained(observer)))
    }
    retiredTables.append(mode.observers)
    mode.observers = table
    mode.observerMask = mask
    mode.hasWaitingObservers = waits
    mode.observerGeneration = observerGeneration
    if observerDepth == 0 { freeRetiredTables() }
  }

  private func freeRetiredTables() {
    assertOwner()
    let tables = retiredTables
    retiredTables = []
    for table in tables {
      for entry in table { entry.observer.release() }
      table.deallocate()
    }
  }
}
