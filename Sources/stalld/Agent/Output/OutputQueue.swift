import LoopEngine
import Synchronization

/// The lines that wait for one output, and what it has done.
///
/// The agent's loop fills it, the output's thread empties it, and anybody may ask, so a thread that hangs hides nothing.
final class OutputQueue: Sendable {
  /// How much waits at most for an output that nobody has to wait for.
  static let optionalBytes = 4 << 20
  /// How much is written at once.
  static let batchLines = 512
  static let batchBytes = 256 << 10

  private struct State {
    var lines = LineQueue()
    /// How many of the first are being written, and so must stay.
    var busy = 0
    var tally: OutputCounters.Output
    /// When a line was last taken, or began to wait; nil if none waits.
    var progress: Loop.Instant?
    var failingSince: Loop.Instant?
    /// When bringing written lines to the disk first failed; nil once it works.
    var unsynchronisedSince: Loop.Instant?
    /// The thread has been woken, and has not begun yet.
    var isAnnounced = false
    var isAbandoned = false
    /// The drop of lines has been said, since the queue was last empty.
    var hasDropped = false
  }

  let name: String
  private let state: Mutex<State>

  init(name: String) {
    self.name = name
    state = Mutex(State(tally: OutputCounters.Output(name: name)))
  }

  var isRequired: Bool {
    get { state.withLock { $0.tally.isRequired } }
    set { state.withLock { $0.tally.isRequired = newValue } }
  }

  var count: Int { state.withLock { $0.lines.count } }

  /// The lines that wait, oldest first.
  var waiting: ArraySlice<ReportLine> { state.withLock { $0.lines.all } }

  var counters: OutputCounters.Output {
    state.withLock { state in
      var result = state.tally
      result.queuedLines = state.lines.count
      result.queuedBytes = state.lines.bytes
      result.isFailing = state.failingSince != nil
      result.isUnsynchronised = state.unsynchronisedSince != nil
      result.waiting = state.progress?.duration(to: .now) ?? .zero
      return result
    }
  }

  /// Puts lines at the end; whether the thread must be woken, and whether lines had to be dropped for the first time.
  func append(_ lines: some Sequence<ReportLine>) -> (wakes: Bool, drops: Bool) {
    state.withLock { state in
      for line in lines { state.lines.append(line) }
      if state.progress == nil { state.progress = .now }
      let wakes = !state.isAnnounced
      state.isAnnounced = true
      guard !state.tally.isRequired else { return (wakes, false) }
      var drops = false
      while state.lines.bytes > Self.optionalBytes, state.lines.dropOldest(sparing: state.busy) {
        state.tally.dropped += 1
        drops = drops || !state.hasDropped
        state.hasDropped = true
      }
      return (wakes, drops)
    }
  }

  /// Lines that are not wanted any more by this output; its thread finds none from now on.
  func abandon() -> ArraySlice<ReportLine> {
    state.withLock { state in
      state.isAbandoned = true
      state.progress = nil
      defer { state.lines = LineQueue() }
      return state.lines.all
    }
  }

  // MARK: On the output's thread

  /// The oldest lines: they stay in the queue until ``finish(_:bytes:written:isMidLine:)``.
  func begin() -> [ReportLine] {
    state.withLock { state in
      state.isAnnounced = false
      let batch = state.lines.first(Self.batchLines, bytes: Self.batchBytes)
      state.busy = batch.count
      return batch
    }
  }

  /// The first lines are finished.
  ///
  /// None of the others is being written, except perhaps the first of them, if a part of it is out.
  func finish(_ count: Int, bytes: Int, written: Bool = true, isMidLine: Bool = false) {
    state.withLock { state in
      guard !state.isAbandoned else { return }
      state.lines.removeFirst(count)
      state.busy = isMidLine ? 1 : 0
      if written {
        state.tally.lines += UInt64(count)
        state.tally.bytes += UInt64(bytes)
      }
      if count > 0 { state.progress = state.lines.isEmpty ? nil : .now }
    }
  }

  /// Brings what was written to the disk.
  ///
  /// - Parameter body: Returns what is wrong, nil if nothing is. A disk that hangs in it is a stuck output, though no line waits.
  /// - Returns: What is wrong for the first time, or for how long it was wrong until now.
  func synchronise(_ body: () -> String?) -> (problem: String?, recovered: Duration?) {
    state.withLock { $0.progress = $0.progress ?? .now }
    let problem = body()
    return state.withLock { state in
      if state.lines.isEmpty { state.progress = nil }
      let since = state.unsynchronisedSince
      guard let problem else {
        state.unsynchronisedSince = nil
        return (nil, since?.duration(to: .now))
      }
      state.tally.errors += 1
      state.unsynchronisedSince = since ?? .now
      return (since == nil ? problem : nil, nil)
    }
  }

  func drop() {
    state.withLock { state in
      state.tally.errors += 1
      state.tally.dropped += 1
    }
    finish(1, bytes: 0, written: false)
  }

  func note(rotations: UInt64) { state.withLock { $0.tally.rotations = rotations } }

  /// An attempt has failed; whether it is the first one.
  func fail() -> Bool {
    state.withLock { state in
      state.tally.errors += 1
      defer { state.failingSince = state.failingSince ?? .now }
      return state.failingSince == nil
    }
  }

  /// Nothing waits any more; for how long it failed, nil if it did not.
  func recover() -> Duration? {
    state.withLock { state in
      state.hasDropped = false
      defer { state.failingSince = nil }
      return state.failingSince?.duration(to: .now)
    }
  }
}
