extension Loop {
  /// Adds a signalled source to a mode, or to all common ones.
  ///
  /// Adding it twice changes nothing.
  ///
  /// - Returns: False when the source is invalid or belongs to another loop, or when the loop's thread has ended.
  @discardableResult
  public func add(_ source: Source, to mode: Mode = .common) -> Bool {
    guard source.isValid, source.binding.bind(to: self) else { return false }
    return changeMembership(of: source, mode.id, isAddition: true, waking: true) { self.addOwned(source, mode.id) }
  }

  /// Takes a source out of a mode; it stays valid and in its other modes.
  public func remove(_ source: Source, from mode: Mode = .common) {
    guard source.binding.loop === self else { return }
    changeMembership(of: source, mode.id, isAddition: false, waking: false) { self.removeOwned(source, mode.id) }
  }

  /// Whether a source was added to exactly this mode; `.common` counts as a mode of its own.
  ///
  /// On another thread, additions and removals that other threads have requested count as made. The call takes a short
  /// lock, which the loop never holds during a callout.
  public func contains(_ source: Source, in mode: Mode) -> Bool {
    source.binding.loop === self
      && isMember(source, of: mode, isValid: source.isValid) { source.keys.contains(mode.id) }
  }

  // MARK: On the loop's thread

  private func addOwned(_ source: Source, _ key: Int32) {
    assertOwner()
    guard source.isValid else { return }
    if source.keys.contains(key) {
      if key == Mode.common.id { endExceptions(of: &source.keys) }
      return
    }
    makeMode(key).sourceCount += 1
    if source.keys.isEmpty {
      sources[ObjectIdentifier(source)] = source
      // It may have been signalled before it had a loop.
      if source.isSignalled { enlist(source) }
    }
    memberships.withLock { _ in source.keys.add(key) }
    source.didSchedule?(self, Mode(id: key))
  }

  private func removeOwned(_ source: Source, _ key: Int32) {
    assertOwner()
    if let mode = findMode(key), source.keys.isCommonItem(in: mode) {
      mode.exceptedSources += 1
      memberships.withLock { _ in source.keys.except(key) }
    }
    guard source.keys.contains(key) else { return }
    if key == Mode.common.id { endExceptions(of: &source.keys) }
    memberships.withLock { _ in source.keys.remove(key) }
    makeMode(key).sourceCount -= 1
    if source.keys.isEmpty {
      sources[ObjectIdentifier(source)] = nil
      signalledSources.remove(source)
    }
    source.didCancel?(self, Mode(id: key))
  }

  func sourceDidBecomeInvalid(_ source: Source) {
    change(waking: false) { for key in source.keys.added { self.removeOwned(source, key) } }
  }

  /// Notes a signal; it does not wake the loop.
  func sourceWasSignalled(_ source: Source) {
    change(waking: false) { if !source.keys.isEmpty { self.enlist(source) } }
  }

  private func enlist(_ source: Source) {
    assertOwner()
    signalledSources.insert(source, sequence: takeSequence())
  }

  /// Performs the signalled sources of a mode, by order and then by time; true if one was performed.
  @inline(__always)
  func performSignalledSources(_ mode: ModeState, onlyOne: Bool) -> Bool {
    assertOwner()
    return signalledSources.isEmpty ? false : performSignalledSourcesSlowly(mode, onlyOne: onlyOne)
  }

  private func performSignalledSourcesSlowly(_ mode: ModeState, onlyOne: Bool) -> Bool {
    let ready = signalledSources.sorted(onlyFirst: onlyOne) { source in
      source.isValid && source.keys.isIn(mode)
    }
    var performed = false
    let outer = published.save()
    // What an earlier one has ended, or taken out of the mode, or performed in a run of its own, is not performed any more.
    for source in ready where source.isValid && source.signalled.load(ordering: .acquiring) {
      guard source.keys.isIn(mode) else { continue }
      signalledSources.remove(source)
      // An exchange and not a store: what a signaller wrote before it found the flag set must be seen by the perform.
      _ = source.signalled.exchange(false, ordering: .acquiringAndReleasing)
      published.publish(.source, source.callSite)
      source.call()
      performed = true
      if onlyOne { break }
    }
    published.restore(outer)
    return performed
  }
}
