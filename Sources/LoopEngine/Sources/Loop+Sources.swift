extension Loop {
  /// Adds a signalled source to a mode, or to all common ones.
  ///
  /// Adding it twice changes nothing.
  ///
  /// - Returns: False when the source is invalid or belongs to another loop, or when the loop's thread has ended.
  @discardableResult
  public func add(_ source: Source, to mode: Mode = .common) -> Bool {
    guard source.isValid, source.binding.bind(to: self) else { return false }
    return change { self.addOwned(source, mode.id) }
  }

  /// Takes a source out of a mode; it stays valid and in its other modes.
  public func remove(_ source: Source, from mode: Mode = .common) {
    guard source.binding.loop === self else { return }
    change(waking: false) { self.removeOwned(source, mode.id) }
  }

  /// Whether a source was added to exactly this mode (`.common` being the set).
  ///
  /// On the loop's thread only.
  public func contains(_ source: Source, in mode: Mode) -> Bool {
    requireOwner()
    absorb()
    return source.binding.loop === self && source.keys.contains(mode.id)
  }

  // MARK: On the loop's thread

  private func addOwned(_ source: Source, _ key: Int32) {
    guard source.isValid, !source.keys.contains(key) else { return }
    makeMode(key).sourceCount += 1
    if source.keys.isEmpty {
      sources[ObjectIdentifier(source)] = source
      // It may have been signalled before it had a loop to tell.
      if source.isSignalled { enlist(source) }
    }
    source.keys.append(key)
    source.didSchedule?(self, Mode(id: key))
  }

  private func removeOwned(_ source: Source, _ key: Int32) {
    guard let position = source.keys.firstIndex(of: key) else { return }
    source.keys.remove(at: position)
    makeMode(key).sourceCount -= 1
    if source.keys.isEmpty {
      sources[ObjectIdentifier(source)] = nil
      signalledSources.removeAll { $0 === source }
    }
    source.didCancel?(self, Mode(id: key))
  }

  func sourceDidBecomeInvalid(_ source: Source) {
    change(waking: false) { for key in source.keys { self.removeOwned(source, key) } }
  }

  /// Notes a signal; it does not wake the loop.
  func sourceWasSignalled(_ source: Source) {
    change(waking: false) { if !source.keys.isEmpty { self.enlist(source) } }
  }

  private func enlist(_ source: Source) {
    guard !signalledSources.contains(where: { $0 === source }) else { return }
    source.signalSequence = takeSequence()
    signalledSources.append(source)
  }

  /// Performs the signalled sources of a mode, by order and then by time; true if one was performed.
  @inline(__always)
  func performSignalledSources(_ mode: ModeState, onlyOne: Bool) -> Bool {
    signalledSources.isEmpty ? false : performSignalledSourcesSlowly(mode, onlyOne: onlyOne)
  }

  private func performSignalledSourcesSlowly(_ mode: ModeState, onlyOne: Bool) -> Bool {
    let ready = signalledSources.filter { source in source.keys.contains { matches($0, mode) } }
      .sorted { ($0.order, $0.signalSequence) < ($1.order, $1.signalSequence) }
    var performed = false
    let outer = published.save()
    for source in ready where source.isValid && source.signalled.load(ordering: .acquiring) {
      guard source.keys.contains(where: { matches($0, mode) }) else { continue }
      signalledSources.removeAll { $0 === source }
      // An exchange and not a store: what a signaller wrote before it found the flag set must be seen by the perform.
      _ = source.signalled.exchange(false, ordering: .acquiringAndReleasing)
      published.publish(.source, source.origin)
      source.call()
      performed = true
      if onlyOne { break }
    }
    published.restore(outer)
    return performed
  }
}
