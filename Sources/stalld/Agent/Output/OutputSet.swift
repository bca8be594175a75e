import LoopEngine
import Synchronization

/// The outputs that are open, and how far they have come together.
final class OutputSet: Sendable {
  private struct Open {
    var settings: AgentSettings.Output
    var thread: OutputThread
  }

  private struct State {
    var open: [Open] = []
    // Lines, counted from the first one ever.
    var submitted: UInt64 = 0
    var finished: UInt64 = 0
    var isClosed = false
    var doneHandlers: [@Sendable () -> Void] = []

    /// How many lines wait for the required output that has the most of them.
    ///
    /// Each queue is the end of the same sequence, so the longest one contains the others.
    var waiting: Int { open.lazy.filter(\.thread.queue.isRequired).map(\.thread.queue.count).max() ?? 0 }
  }

  /// How long an output may take to open.
  private static let openLimit = Duration.seconds(5)
  /// How long one that is no longer wanted may take to send what it can.
  private static let closeLimit = Duration.seconds(1)

  private let maker: DestinationMaker
  private let say: OutputWriter.Say
  private let didWrite: @Sendable (Int) -> Void
  private let state = Mutex(State())

  init(maker: DestinationMaker, say: @escaping OutputWriter.Say, didWrite: @escaping @Sendable (Int) -> Void) {
    self.maker = maker
    self.say = say
    self.didWrite = didWrite
  }

  var counters: OutputCounters {
    OutputCounters(outputs: state.withLock { $0.open.map(\.thread) }.map(\.queue.counters))
  }

  /// Takes lines: on any thread, without waiting.
  func submit(_ lines: [ReportLine]) {
    let pieces = LineQueue.Piece.pieces(of: lines[...])
    let outcomes = state.withLock { state -> [(thread: OutputThread, wakes: Bool, drops: Bool)] in
      guard !state.isClosed else { return [] }
      state.submitted += UInt64(lines.count)
      return state.open.map { output in
        let (wakes, drops) = output.thread.queue.append(pieces)
        return (output.thread, wakes, drops)
      }
    }
    // Behind the lock: a thread that is woken may take this one's processor.
    for outcome in outcomes where outcome.wakes { outcome.thread.wake() }
    for outcome in outcomes where outcome.drops {
      say(.warning, "\(outcome.thread.queue.name): not accepting writes; dropping the oldest lines")
    }
  }

  /// Reports that an earlier run has written, by the path of the file that alone has them; before any line comes.
  func remember(_ known: [String: KnownReports]) {
    for output in state.withLock({ $0.open }) {
      if case .file(let file) = output.settings, let own = known[file.path] { output.thread.remember(own) }
    }
  }

  func reopen() { for output in state.withLock({ $0.open }) { output.thread.reopen() } }

  /// Opens what is new, keeps what stays, and closes what is gone; or throws, and changes nothing.
  ///
  /// Waits a while, so not on the agent's loop; one at a time.
  func replace(_ settings: [AgentSettings.Output]) throws(OutputError) {
    let current = state.withLock { $0.isClosed ? nil : $0.open }
    guard let current else { return }
    let (next, opened) = try prepare(settings, from: current)
    for output in next { output.thread.update(output.settings) }
    let leaving = current.map(\.thread).filter { former in !next.contains { $0.thread === former } }
    let closing = leaving.map { $0.close() }
    let deadline = Loop.Instant.now.advanced(by: Self.closeLimit)
    let closed = closing.map { $0.wait(until: deadline) }
    let lost = state.withLock { state -> (name: String, lines: Int)? in
      defer { state.open = next }
      // What a required one could not take goes to those that come in its place. The longest queue holds the others.
      var unwritten = leaving.filter(\.queue.isRequired).map { ($0.queue.name, $0.queue.abandon()) }
      let hasFile = settings.contains { $0.isFile }
      for output in next {
        let (queue, isRequired) = (output.thread.queue, output.settings.isFile || !hasFile)
        if queue.isRequired, !isRequired { unwritten.append((queue.name, queue.waiting)) }
        queue.isRequired = isRequired
      }
      guard let most = unwritten.max(by: { $0.1.count < $1.1.count }), !most.1.isEmpty else { return nil }
      for thread in opened where thread.queue.append(LineQueue.Piece.pieces(of: most.1[...])).wakes { thread.wake() }
      return opened.isEmpty ? (most.0, most.1.count) : nil
    }
    for (thread, isClosed) in zip(leaving, closed) where isClosed { thread.end() }
    if let lost { say(.error, "\(lost.name): closed; \(lost.lines) lines were not written") }
    settle()
  }

  /// The outputs as they are to be, and which threads of them are new; those are open.
  private func prepare(
    _ settings: [AgentSettings.Output], from current: [Open]
  ) throws(OutputError) -> (next: [Open], opened: [OutputThread]) {
    if settings.isEmpty { throw OutputError("outputs", "at least one output is required") }
    for (position, wanted) in settings.enumerated() {
      if let twin = settings[..<position].firstIndex(where: { $0.isSamePlace(as: wanted) }) {
        throw OutputError("outputs[\(position)]", "writes to the same place as outputs[\(twin)]")
      }
    }
    var next: [Open] = []
    var opened: [OutputThread] = []
    do throws(OutputError) {
      for wanted in settings {
        if let stays = current.first(where: { $0.settings.isSamePlace(as: wanted) }) {
          next.append(Open(settings: wanted, thread: stays.thread))
          continue
        }
        let thread = try OutputThread(maker.make(wanted), say: say) { [weak self] in self?.settle() }
        opened.append(thread)
        next.append(Open(settings: wanted, thread: thread))
      }
      let opening = opened.map { $0.open() }
      let deadline = Loop.Instant.now.advanced(by: Self.openLimit)
      for (thread, task) in zip(opened, opening) { try task.result(of: thread.queue.name, by: deadline) }
    } catch {
      for thread in opened { _ = thread.close() }
      throw error
    }
    return (next, opened)
  }

  /// Calls back when every required output has taken all lines.
  func whenDone(_ body: @escaping @Sendable () -> Void) {
    state.withLock { $0.doneHandlers.append(body) }
    settle()
  }

  /// Sends what goes without waiting, and closes all that answer in time.
  func close(within limit: Duration) {
    let threads = state.withLock { state in
      state.isClosed = true
      return state.open.map(\.thread)
    }
    maker.keeper.stop()
    let deadline = Loop.Instant.now.advanced(by: limit)
    let closing = threads.map { $0.close() }
    for (thread, task) in zip(threads, closing) where task.wait(until: deadline) { thread.end() }
    settle()
  }

  /// Reports how many lines are finished.
  private func settle() {
    let (count, handlers) = state.withLock { state -> (Int, [@Sendable () -> Void]) in
      let done = state.submitted - UInt64(state.waiting)
      let count = done > state.finished ? Int(done - state.finished) : 0
      state.finished += UInt64(count)
      guard done == state.submitted else { return (count, []) }
      defer { state.doneHandlers = [] }
      return (count, state.doneHandlers)
    }
    if count > 0 { didWrite(count) }
    for handler in handlers { handler() }
  }
}

extension AgentSettings.Output {
  var isFile: Bool { kind == .file }

  /// Whether two settings are of one output, which keeps its queue when the rest changes.
  func isSamePlace(as other: AgentSettings.Output) -> Bool { destination == other.destination }
}
