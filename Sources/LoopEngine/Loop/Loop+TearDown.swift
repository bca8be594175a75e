import PlatformLibc

extension Loop {
  /// Ends the loop with its thread: nothing runs any more, and everything is invalidated and released.
  ///
  /// On the loop's thread, once.
  func tearDown() {
    assertOwner()
    noticeFork()
    // From here on every call from anywhere, callbacks of this included, takes the other threads' way.
    published.markEnded()
    // What was accepted is made, so that it ends with all else; later calls are refused.
    repeat { absorb() } while !inbox.close()
    for observer in observers {
      observer.keys.removeAll()
      observer.invalidate()
    }
    observers = []
    // A timer may be in several modes; it is referred to once.
    var timers: [Unmanaged<Timer>] = []
    for mode in modes.compactMap({ $0 }) + [commonItems, spreadItems] {
      timers += mode.timers.pointee.all().filter { $0._withUnsafeGuaranteedRef { $0.key } == mode.id }
      mode.timers.pointee.removeAll()
      mode.poller.close()
    }
    for timer in timers {
      timer._withUnsafeGuaranteedRef { $0.endWithLoop() }
      timer.release()
    }
    let ending = Array(sources.values)
    sources = [:]
    signalledSources.removeAll()
    for source in ending {
      for key in source.keys.added { source.didCancel?(self, Mode(id: key)) }
      source.keys.removeAll()
      source.invalidate()
    }
    let watches = descriptors.all
    descriptors.removeAll()
    let uncalled = descriptors.takeUncalled()
    // Who keeps a source keeps this object, and need not keep the space for all of them.
    descriptors = DescriptorTable()
    for source in watches + uncalled { source.invalidate() }
    if timerDescriptor >= 0 { close(timerDescriptor) }
    timerDescriptor = -1
    let unfinished = pendingWork.values
    pendingWork = [:]
    for work in unfinished { drop(work) }
    markedFlushPoints = []
    ring = WorkRing(capacity: 1)
    idleWork = WorkRing(capacity: 1)
    parked = WorkRing(capacity: 1)
    releaseSpareTimer()
    modeTable.deallocate()
    modeTable = .init(start: nil, count: 0)
    // Their observers hold this loop.
    knownModes.withLock { $0 = KnownModes() }
    modes = []
    current = nil
  }
}
