import CLinux
import PlatformLibc

extension Loop {
  /// Watches a descriptor in a mode, or in all common ones.
  ///
  /// Adding a source twice changes nothing.
  ///
  /// On the loop's thread the kernel's answer is the result. On another thread, the call tests the descriptor with a
  /// temporary epoll instance, and throws if that fails. The loop watches it later. If that fails (for example with
  /// `EEXIST`), the source becomes invalid, and its `error` has the reason.
  ///
  /// - Throws: ``LoopError`` with the error number: a regular file (`EPERM`), a closed
  ///   descriptor (`EBADF`), one that another source of the mode watches (`EEXIST`, on the loop's thread only), no more
  ///   descriptors (`EMFILE`); `EINVAL` when the source is invalid or belongs to another loop, `ESRCH` when the loop's
  ///   thread has ended.
  public func add(_ source: DescriptorSource, to mode: Mode = .common) throws(LoopError) {
    let operation = "watch descriptor \(source.descriptor)"
    guard source.isValid, source.binding.bind(to: self) else {
      throw LoopError(operation, descriptor: source.descriptor, errorNumber: EINVAL)
    }
    if isOwner {
      noticeFork()
      absorb()
      try addOwned(source, mode.id)
      return
    }
    var probe = Poller()
    try probe.open(isTagged: false)
    try probe.add(source.descriptor, events: source.epollEvents, token: 0)
    let accepted = changeMembership(of: source, mode.id, isAddition: true, waking: true) {
      do throws(LoopError) { try self.addOwned(source, mode.id) } catch { source.fail(error) }
    }
    if !accepted { throw LoopError(operation, descriptor: source.descriptor, errorNumber: ESRCH) }
  }

  /// Watches a descriptor: makes a source and adds it.
  ///
  /// - Parameters:
  ///   - descriptor: The descriptor, which stays the caller's.
  ///   - interests: What to watch for; errors and a full hang-up are always reported.
  ///   - repeats: False for a source that is called once, and is invalid then.
  ///   - mode: Where it works.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was made.
  ///   - line: Where it was made.
  ///   - body: Called on the loop's thread with the source and what the descriptor is ready for.
  /// - Returns: The source, for its invalidation.
  /// - Throws: As ``add(_:to:)-(Loop.DescriptorSource,_)``.
  @discardableResult
  public func watch(
    _ descriptor: Int32, for interests: DescriptorSource.Readiness = .readable, repeats: Bool = true,
    in mode: Mode = .common, name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    body: sending @escaping (DescriptorSource, DescriptorSource.Readiness) -> Void
  ) throws(LoopError) -> DescriptorSource {
    let source = DescriptorSource(
      descriptor, for: interests, repeats: repeats, name: name, file: file, line: line, body: body)
    try add(source, to: mode)
    return source
  }

  /// Stops watching a descriptor in a mode; the source stays valid and in its other modes.
  public func remove(_ source: DescriptorSource, from mode: Mode = .common) {
    guard source.binding.loop === self else { return }
    changeMembership(of: source, mode.id, isAddition: false, waking: false) { self.removeOwned(source, mode.id) }
  }

  /// Whether a source was added to exactly this mode; `.common` counts as a mode of its own.
  ///
  /// On another thread, additions and removals that other threads have requested count as made. The call takes a short
  /// lock, which the loop never holds during a callout.
  public func contains(_ source: DescriptorSource, in mode: Mode) -> Bool {
    source.binding.loop === self
      && isMember(source, of: mode, isValid: source.isValid) { source.keys.contains(mode.id) }
  }

  // MARK: On the loop's thread

  private func addOwned(_ source: DescriptorSource, _ key: Int32) throws(LoopError) {
    assertOwner()
    guard source.isValid else { return }
    if source.keys.contains(key) {
      guard key == Mode.common.id, source.keys.hasExceptions else { return }
      removeOwned(source, key)
    }
    if source.token == 0 { descriptors.insert(source) }
    let added = pollingModes(of: key).filter { !isWatching(source, $0) }
    var done: [ModeState] = []
    do {
      for mode in added {
        try watch(source, in: mode)
        done.append(mode)
      }
    } catch {
      for mode in done { mode.poller.remove(source.descriptor, token: source.token) }
      if source.keys.isEmpty { descriptors.remove(source) }
      throw error
    }
    memberships.withLock { _ in source.keys.add(key) }
    makeMode(key).sourceCount += 1
    // Ended by what was absorbed meanwhile.
    if !source.isValid { removeOwned(source, key) }
  }

  private func removeOwned(_ source: DescriptorSource, _ key: Int32) {
    assertOwner()
    if let mode = findMode(key), source.keys.isCommonItem(in: mode) {
      mode.exceptedSources += 1
      memberships.withLock { _ in source.keys.except(key) }
      if !isWatching(source, mode) { mode.poller.remove(source.descriptor, token: source.token) }
      descriptors.noteChange()
    }
    guard source.keys.contains(key) else { return }
    if key == Mode.common.id { endExceptions(of: &source.keys) }
    memberships.withLock { _ in source.keys.remove(key) }
    makeMode(key).sourceCount -= 1
    for mode in pollingModes(of: key) where !isWatching(source, mode) {
      mode.poller.remove(source.descriptor, token: source.token)
    }
    if source.keys.isEmpty { descriptors.remove(source) } else { descriptors.noteChange() }
  }

  func descriptorSourceDidBecomeInvalid(_ source: DescriptorSource) {
    change(waking: false) { for key in source.keys.added { self.removeOwned(source, key) } }
  }

  /// - Parameters:
  ///   - source: Whose interest it is.
  ///   - isLess: Whether the kernel may have said what is no longer asked for.
  func descriptorInterestDidChange(_ source: DescriptorSource, isLess: Bool) {
    change {
      // In its own call its event has been served.
      if isLess && !DescriptorTable.isInnermostCallee(source) { self.descriptors.noteChange() }
      for mode in self.modes.compactMap({ $0 }) where self.isWatching(source, mode) {
        do throws(LoopError) {
          try mode.poller.modify(source.descriptor, events: source.epollEvents, token: source.token)
        } catch {
          source.fail(error)
        }
      }
    }
  }

  /// Starts a watch in one mode.
  func watch(_ source: DescriptorSource, in mode: ModeState) throws(LoopError) {
    assertOwner()
    try openPoller(mode)
    try mode.poller.add(source.descriptor, events: source.epollEvents, token: source.token)
  }

  private func pollingModes(of key: Int32) -> [ModeState] {
    key == Mode.common.id ? modes.compactMap { $0 }.filter(\.isCommon) : [makeMode(key)]
  }

  func isWatching(_ source: DescriptorSource, _ mode: ModeState) -> Bool {
    assertOwner()
    return source.keys.isIn(mode)
  }

  /// Calls a ready source.
  ///
  /// The table holds it, also if it leaves meanwhile: no reference is counted here.
  @inline(__always)
  func call(_ entry: DescriptorTable.Reference, _ readiness: DescriptorSource.Readiness) {
    assertOwner()
    descriptors.callBegins(entry)
    published.publish(.descriptor, entry.pointee.callSite)
    entry.pointee.call(readiness)
    published.clear()
    if descriptors.callEnds() { letGoOfSources() }
  }

  @inline(never)
  private func letGoOfSources() {
    assertOwner()
    // After the table has released them: releasing a closure may call the table again.
    let sources = descriptors.takeUncalled()
    withExtendedLifetime(sources) {}
  }

  // MARK: Epoll instances

  /// Opens a mode's epoll instance with the loop's own descriptors in it.
  func openPoller(_ mode: ModeState) throws(LoopError) {
    assertOwner()
    if mode.poller.isOpen { return }
    try ensureWakeDescriptorOrThrow()
    try mode.poller.open()
    do {
      try mode.poller.watchEdges(of: inbox.wakeDescriptor.load(ordering: .relaxed), token: Poller.wakeToken)
      try mode.poller.watchEdges(of: timerDescriptor, token: Poller.timerToken)
      // It may have been closed with all others; it is requested again then.
      if mode.watchesMainQueue {
        mode.watchesMainQueue =
          (try? mode.poller.watchEdges(of: mainQueueDescriptor, token: Poller.mainQueueToken)) != nil
      }
    } catch {
      mode.poller.close()
      throw error
    }
    // Ended sources are notified when all others are watched again: they may be changed by what that makes the loop absorb.
    var ended: [(source: DescriptorSource, error: LoopError?)] = []
    for (descriptor, token) in mode.poller.takeLapsed() {
      guard let source = descriptors.find(token)?.source, isWatching(source, mode) else { continue }
      // Ended by a thread that is not in this child of a fork.
      if !source.isValid {
        ended.append((source, nil))
        continue
      }
      do throws(LoopError) {
        try mode.poller.add(descriptor, events: source.epollEvents, token: token)
      } catch {
        ended.append((source, error))
      }
    }
    for (source, error) in ended {
      if let error { source.fail(error) } else { descriptorSourceDidBecomeInvalid(source) }
    }
  }

  /// Makes the eventfd that ends a sleep; false when there are no descriptors left (it is tried again).
  func ensureWakeDescriptor() -> Bool {
    do { try ensureWakeDescriptorOrThrow() } catch { return false }
    return true
  }

  private func ensureWakeDescriptorOrThrow() throws(LoopError) {
    if inbox.wakeDescriptor.load(ordering: .relaxed) >= 0 { return }
    let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    if descriptor < 0 { throw LoopError("make an eventfd") }
    inbox.wakeDescriptor.store(descriptor, ordering: .releasing)
  }

  /// Makes the timerfd and puts it into all epoll instances.
  func ensureTimerDescriptor() throws(LoopError) {
    assertOwner()
    if timerDescriptor >= 0 { return }
    let descriptor = timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
    if descriptor < 0 { throw LoopError("make a timerfd") }
    for mode in modes.compactMap({ $0 }) {
      do throws(LoopError) {
        try mode.poller.watchEdges(of: descriptor, token: Poller.timerToken)
      } catch {
        for mode in modes.compactMap({ $0 }) { mode.poller.remove(descriptor, token: Poller.timerToken) }
        close(descriptor)
        throw error
      }
    }
    timerDescriptor = descriptor
  }

  /// Replaces a mode's epoll instance, to remove a watch whose descriptor was closed while another
  /// descriptor keeps its file open.
  ///
  /// Should there be no descriptor for it now, it is tried again in each pass.
  func reopenPoller(_ mode: ModeState) {
    assertOwner()
    guard mode.poller.isOpen else { return }
    mode.poller.close()
    try? openPoller(mode)
  }
}
