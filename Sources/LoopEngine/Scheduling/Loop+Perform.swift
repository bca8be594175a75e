extension Loop {
  /// Runs a block once on the loop's thread, in the current or next pass that serves its mode, after all blocks that
  /// were there before.
  ///
  /// Wakes the loop.
  ///
  /// On the loop's own thread this takes a lock only if other threads have left work. On another thread it takes one for
  /// a few nanoseconds, and the first post of a burst to a sleeping loop makes one system call. Nothing is allocated
  /// beyond the closure's own context, unless the queue grows.
  ///
  /// - Parameters:
  ///   - mode: The mode in which the block may run.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - block: Called on the loop's thread; released without a call if the thread ends before.
  /// - Returns: False when the loop's thread has ended; the block is then released.
  @inlinable
  @discardableResult
  public func perform(
    in mode: Mode = .common, name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ block: consuming sending @escaping () -> Void
  ) -> Bool {
    note(mode)
    return enqueue(WorkItem(modes: mode.id, callSite: CallSite(file, line, name), body: block))
  }

  /// Runs a block once on the loop's thread, in the current or next pass that serves any of several modes.
  ///
  /// - Parameters:
  ///   - modes: The modes in which the block may run. An empty set is never served.
  ///   - name: What the monitor calls it in a report.
  ///   - file: Where it was scheduled.
  ///   - line: Where it was scheduled.
  ///   - block: Called on the loop's thread.
  /// - Returns: False when the loop's thread has ended.
  @discardableResult
  public func perform(
    in modes: [Mode], name: StaticString? = nil, file: StaticString = #fileID, line: UInt32 = #line,
    _ block: sending @escaping () -> Void
  ) -> Bool {
    let callSite = CallSite(file, line, name)
    let set = SeveralModes(modes, of: self)
    guard let use = set.use else { return enqueue(WorkItem(modes: set.number, callSite: callSite, body: block)) }
    // The set is known as long as the block is there.
    return enqueue(WorkItem(modes: set.number, callSite: callSite) { [block] in withExtendedLifetime(use) { block() } })
  }

  @usableFromInline
  func enqueue(_ item: consuming WorkItem) -> Bool {
    if isOwner {
      // What others have left came first.
      absorb()
      ring.append(item)
      return true
    }
    return inbox.post(item)
  }

  // MARK: On the loop's thread

  /// Runs the blocks that are there now and belong to the mode; blocks that these add wait for the next time.
  @inline(__always)
  func runBlocks(_ mode: ModeState) {
    absorb()
    if !ring.isEmpty { runBlocksSlowly(mode) }
  }

  @inline(never)
  private func runBlocksSlowly(_ mode: ModeState) {
    assertOwner()
    let end = ring.tail
    counters.sawQueue(of: ring.count)
    let outer = published.save()
    // A nested run continues where this one is, so no block is overtaken by a later one.
    while ring.head < end {
      let item = ring.popFirst()
      if matches(item.modes, mode) {
        published.publish(.block, item.callSite)
        item.body()
      } else {
        parked.append(item)
      }
    }
    ring.trim()
    published.restore(outer)
  }

  /// Puts blocks that waited for another mode back in front.
  @inline(never)
  func unpark() {
    assertOwner()
    ring.prepend(moving: &parked)
    parked.trim()
  }
}
