import LoopEngine
import Synchronization

/// The lines that wait for one output, and what it has done.
///
/// The agent's loop fills it, the output's thread empties it, and anybody may ask, so a thread that hangs hides nothing. The loop never waits
/// for a thread that is at more than some instructions: the thread takes a batch out of the queue before it copies, writes or releases lines.
final class OutputQueue: Sendable {
  /// How much waits at most for an output that nobody has to wait for.
  static let optionalBytes = 4 << 20
  /// How much is written at once.
  static let batchLines = 512
  static let batchBytes = 256 << 10

  private struct State {
    var lines = LineQueue()
    /// Lines and bytes of the batch that have not been written yet.
    var batch = (lines: 0, bytes: 0)
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

    var count: Int { lines.count + batch.lines }
  }

  let name: String
  private let state: Mutex<State>
  /// The lines that the thread is at; taken before ``state`` where both are needed, and never by the agent's loop.
  private let batch = Mutex<ArraySlice<ReportLine>>([])

  init(name: String) {
    self.name = name
    state = Mutex(State(tally: OutputCounters.Output(name: name)))
  }

  var isRequired: Bool {
    get { state.withLock { $0.tally.isRequired } }
    set { state.withLock { $0.tally.isRequired = newValue } }
  }

  var count: Int { state.withLock(\.count) }

  /// The lines that wait, oldest first.
  var waiting: [ReportLine] {
    batch.withLock { batch in Array(batch) + state.withLock { $0.lines.all }.flatMap(\.lines) }
  }

  var counters: OutputCounters.Output {
    state.withLock { state in
      var result = state.tally
      result.queuedLines = state.count
      result.queuedBytes = state.lines.bytes + state.batch.bytes
      result.isUnsynchronised = state.unsynchronisedSince != nil
      result.waiting = state.progress?.duration(to: .now) ?? .zero
      return result
    }
  }

  /// Puts lines at the end; whether the thread must be woken, and whether lines had to be dropped for the first time.
  func append(_ pieces: [LineQueue.Piece]) -> (wakes: Bool, drops: Bool) {
    // Released behind the lock.
    var dropped: [LineQueue.Piece] = []
    return state.withLock { state in
      for piece in pieces { state.lines.append(piece) }
      if state.progress == nil { state.progress = .now }
      let wakes = !state.isAnnounced
      state.isAnnounced = true
      guard !state.tally.isRequired else { return (wakes, false) }
      while state.lines.bytes + state.batch.bytes > Self.optionalBytes, let oldest = state.lines.takeFirst() {
        dropped.append(oldest)
        state.tally.dropped += UInt64(oldest.lines.count)
      }
      let drops = !dropped.isEmpty && !state.hasDropped
      if drops { state.hasDropped = true }
      return (wakes, drops)
    }
  }

  /// Lines that are not wanted any more by this output; its thread finds none from now on.
  func abandon() -> [ReportLine] {
    batch.withLock { batch in
      defer { batch = [] }
      let rest = state.withLock { state in
        state.isAbandoned = true
        state.progress = nil
        state.batch = (0, 0)
        defer { state.lines = LineQueue() }
        return state.lines.all
      }
      return batch + rest.flatMap(\.lines)
    }
  }

  // MARK: On the output's thread

  /// The oldest lines: they stay in the queue until ``finish(_:written:)``.
  func begin() -> ArraySlice<ReportLine> {
    batch.withLock { batch in
      let pieces = state.withLock { state in
        state.isAnnounced = false
        guard batch.isEmpty else { return [LineQueue.Piece]() }
        let pieces = state.lines.takeFirst(lines: Self.batchLines, bytes: Self.batchBytes)
        state.batch = pieces.reduce(into: (0, 0)) { $0 = ($0.0 + $1.lines.count, $0.1 + $1.bytes) }
        return pieces
      }
      if batch.isEmpty { batch = pieces.count == 1 ? pieces[0].lines : ArraySlice(pieces.flatMap(\.lines)) }
      return batch
    }
  }

  /// The first lines of the batch are finished.
  func finish(_ count: Int, written: Bool = true) {
    batch.withLock { batch in
      // Abandoned meanwhile.
      guard count > 0, count <= batch.count else { return }
      let bytes = batch.prefix(count).reduce(0) { $0 + $1.bytes.count }
      batch = batch.count == count ? [] : batch.dropFirst(count)
      state.withLock { state in
        state.batch = (state.batch.lines - count, state.batch.bytes - bytes)
        if written {
          state.tally.lines += UInt64(count)
          state.tally.bytes += UInt64(bytes)
        }
        state.progress = state.count == 0 ? nil : .now
      }
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
      if state.count == 0 { state.progress = nil }
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
    finish(1, written: false)
  }

  func note(rotations: UInt64) { state.withLock { $0.tally.rotations = rotations } }

  /// An attempt has failed; whether it is the first one, or the reason is another one than before.
  func fail(_ reason: String) -> Bool {
    state.withLock { state in
      state.tally.errors += 1
      state.failingSince = state.failingSince ?? .now
      defer { state.tally.failure = reason }
      return state.tally.failure != reason
    }
  }

  /// Nothing waits any more; for how long it failed, nil if it did not.
  func recover() -> Duration? {
    state.withLock { state in
      state.hasDropped = false
      state.tally.failure = nil
      defer { state.failingSince = nil }
      return state.failingSince?.duration(to: .now)
    }
  }
}
