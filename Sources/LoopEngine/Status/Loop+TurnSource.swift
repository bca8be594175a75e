import CLinux
import Synchronization
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

  /// Where the stack of the loop's thread ends; 0 for the main thread.
  package var stackEnd: UInt64 { published.stackEnd }

  /// Stamps each turn and each callout, in every mode.
  ///
  /// A turn that is in progress counts from now.
  package func add(_ stamp: TurnStamp) {
    let turn = UnseenTurn()
    let isTaken = change(waking: false) {
      self.published.add(stamp.pointer, runs: self.depth)
      turn.isOver.store(true, ordering: .sequentiallyConsistent)
      // In a run, the word is the loop's own by now.
      if self.depth == 0 { turn.end(stamp) }
    }
    if isTaken && !isOwner { begin(turn, of: stamp) }
  }

  /// Begins the turn that the loop is in, if it is in one and has not learnt of the stamp.
  private func begin(_ turn: UnseenTurn, of stamp: TurnStamp) {
    // Without the barrier, the loop might leave its run and not see the change.
    guard !stamp.pointer.pointee.fences_itself else { return }
    clinux_barrier_on_all_threads()
    // A loop that is awake in a run makes the change before it sleeps or has left the run.
    guard published.modeText != nil, !inbox.isAsleep else { return }
    turn.word.store(clinux_turn_begin_unseen(stamp.pointer), ordering: .sequentiallyConsistent)
    if turn.isOver.load(ordering: .sequentiallyConsistent) { turn.end(stamp) }
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

/// A turn that another thread has begun in the loop's place.
///
/// That thread stores the word and then reads whether the turn is over, the loop's thread the reverse: one of them ends it.
private final class UnseenTurn: Sendable {
  let word = Atomic<UInt64>(0)
  let isOver = Atomic<Bool>(false)

  func end(_ stamp: TurnStamp) {
    let word = word.load(ordering: .sequentiallyConsistent)
    if word != 0 { clinux_turn_end_unseen(stamp.pointer, word) }
  }
}
