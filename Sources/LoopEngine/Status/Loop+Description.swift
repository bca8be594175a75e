import CLinux

extension Loop: CustomStringConvertible {
  /// The loop's modes with their sources, timers and observers, a line each; for people to read.
  ///
  /// On another thread, this wakes the loop and waits for its answer, for a tenth of a second at most. A loop that is blocked in a callout,
  /// or does not run, does not answer. Then the text has the modes, and what the loop is calling.
  public var description: String {
    if isOwnerOrNow {
      absorb()
      return listing
    }
    guard published.modeText != nil else { return outline }
    let answer = Guarded<String?>(nil)
    let latch = Latch(openedBy: threadID)
    let isTaken = change {
      let listing = self.listing
      answer.withLock { $0 = listing }
      latch.open()
    }
    guard isTaken, latch.wait(atMost: 100_000_000) else { return outline }
    return answer.withLock { $0 } ?? outline
  }

  /// What all threads know of the loop.
  private var outline: String {
    (["\(heading), contents unknown"] + allModes.map { "  mode \($0)" }).joined(separator: "\n")
  }

  private var heading: String {
    if hasEnded { return "loop of thread \(threadID), which has exited" }
    let snapshot = snapshot
    let activity =
      snapshot.callout.map { "calling \($0.text)" } ?? (snapshot.isWaiting ? "waiting" : nil)
    let mode = snapshot.mode.map { "in mode \($0)" } ?? "not running"
    return ["loop of thread \(threadID)", mode, activity].compactMap(\.self).joined(separator: ", ")
  }

  // MARK: On the loop's thread

  private var listing: String {
    assertOwner()
    let items = ([commonItems] + modes.compactMap(\.self)).flatMap { mode in
      let title = mode === commonItems ? "all common modes" : "mode \(mode.text)\(mode.isCommon ? ", common" : "")"
      return ["  \(title)"]
        + (sourceLines(of: mode) + timerLines(of: mode) + observerLines(of: mode)).map { "    \($0)" }
    }
    // Modes in which nothing is but posted work.
    let others = allModes.filter { findMode($0.id) == nil }.map { "  mode \($0)" }
    let work = "  \(ring.count + parked.count) blocks, \(pendingWork.count) cancellable, \(idleWork.count) idle"
    return ([heading] + items + others + [work]).joined(separator: "\n")
  }

  private func sourceLines(of mode: ModeState) -> [String] {
    let signalled = sources.values.filter { $0.keys.contains(mode.id) }.map { source in
      "source\(source.callSite.text), order \(source.order)\(source.isSignalled ? ", signalled" : "")"
    }
    let watched = descriptors.all.filter { $0.keys.contains(mode.id) }.map { source in
      "\(type(of: source))\(source.callSite.pointee.text), descriptor \(source.descriptor) for \(source.interest)"
    }
    return signalled.sorted() + watched.sorted()
  }

  private func timerLines(of mode: ModeState) -> [String] {
    let firing = (outerFiringTimers + [firingTimer].compactMap(\.self)).map { $0.takeUnretainedValue() }
    let waiting = mode.timers.pointee.all().map { $0.takeUnretainedValue() }
    let now = clinux_monotonic()
    let timers = firing.filter { $0.has(mode.id) } + waiting.sorted { $0.deadlineNanoseconds < $1.deadlineNanoseconds }
    return timers.map { timer in
      let date = timer.deadlineNanoseconds
      let due =
        timer.isFiring
        ? "firing" : date == .max ? "never due" : "due in \(Duration.nanoseconds(date.subtractingSaturated(now)))"
      return "timer\(timer.callSite.text), \(due)\(timer.interval > .zero ? ", every \(timer.interval)" : "")"
    }
  }

  private func observerLines(of mode: ModeState) -> [String] {
    observers.filter { $0.keys.contains(mode.id) }.sorted { ($0.order, $0.sequence) < ($1.order, $1.sequence) }.map {
      "observer\($0.callSite.text) of \($0.activities), order \($0.order)"
    }
  }
}

extension CallSite {
  /// The name and the place, as ` "name" (Module/File.swift:12)`; empty without them.
  fileprivate var text: String {
    let name = name.map { " \"\(ImmortalText(start: $0))\"" } ?? ""
    return name + (file.map { " (\(ImmortalText(start: $0)):\(line))" } ?? "")
  }
}
