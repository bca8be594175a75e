import TurnSource

extension Loop: WatchableLoop {
  /// The interface by which a monitor watches the loop.
  public var turnSource: TurnSourceReference { TurnSourceReference(self) }
}

/// What a monitor watches a loop by.
extension Loop: TurnSource {
  /// What the loop is doing now, as texts.
  ///
  /// Lock-free on any thread; unlike ``snapshot`` it allocates.
  package var turnStatus: (mode: String?, callout: String?) {
    (published.modeText?.description, published.callout?.text)
  }

  /// How long the turns took that have ended.
  package var turnTotals: (histogram: [(upTo: Duration, turns: UInt)], workTime: Duration) {
    let statistics = statistics
    return (statistics.histogram, statistics.workTime)
  }

  /// Runs a closure once on the loop's thread, in the common modes.
  ///
  /// - Returns: False when the loop's thread has ended.
  package func performInTurn(_ body: @escaping @Sendable () -> Void) -> Bool {
    // Without a call site: this file says nothing about who asked.
    enqueue(WorkItem(modes: Mode.common.id, callSite: CallSite(), body: body))
  }

  /// Stamps each turn and each callout, in every mode, from the next of them on.
  package func add(_ stamp: TurnStamp) {
    change(waking: false) { self.published.add(stamp.pointer) }
  }

  /// Ends the stamping.
  ///
  /// - Parameters:
  ///   - stamp: What was added.
  ///   - done: Called when the stamp may be freed. On the loop's own thread, and after that thread has ended, it is called at once;
  ///     otherwise soon, on the loop's thread.
  package func remove(_ stamp: TurnStamp, then done: @escaping @Sendable () -> Void) {
    let isTaken = change {
      self.published.remove(stamp.pointer)
      done()
    }
    if !isTaken { done() }
  }
}

extension Loop.Callout {
  /// The callout as a report shows it: `timer "name" (Module/File.swift:12)`.
  var text: String {
    let name = name.map { " \"\($0)\"" } ?? ""
    let place = fileID.map { " (\($0):\(line))" } ?? ""
    return "\(kind)" + name + place
  }
}
