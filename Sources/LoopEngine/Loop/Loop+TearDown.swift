import Glibc

extension Loop {
  /// Ends the loop with its thread: nothing runs any more, everything is let go of.
  ///
  /// On the loop's thread, once.
  func tearDown() {
    absorb()
    // From here on every call from anywhere takes the other threads' way, and is refused there.
    published.markEnded()
    inbox.close()
    for observer in observers { observer.keys = [] }
    observers = []
    everyModeHooks = []
    for mode in modes.compactMap({ $0 }) + [commonItems] {
      for timer in mode.timers.pointee.all() where timer._withUnsafeGuaranteedRef({ $0.key }) == mode.id {
        timer.release()
      }
      mode.timers.pointee = TimerHeap()
      mode.poller.close()
    }
    let ending = Array(sources.values)
    sources = [:]
    signalledSources = []
    for source in ending {
      for key in source.keys { source.didCancel?(self, Mode(id: key)) }
      source.keys = []
    }
    descriptors.removeAll()
    if timerDescriptor >= 0 { close(timerDescriptor) }
    timerDescriptor = -1
    for work in pendingWork { work.cancel() }
    pendingWork = []
    markedFlushPoints = []
    ring = WorkRing(capacity: 1)
    idleWork = WorkRing(capacity: 1)
    parked = WorkRing(capacity: 1)
    releaseSpareTimer()
    modeTable.deallocate()
    modeTable = .init(start: nil, count: 0)
    modes = []
    current = nil
  }
}
