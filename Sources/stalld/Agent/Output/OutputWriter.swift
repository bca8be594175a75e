import CLinux
import Glibc
import LoopEngine
import Synchronization

/// Writes report lines to all outputs, on a thread of its own: a slow disk never stops the agent's loop.
///
/// Without lines it wakes up never. Nothing is fsync'ed: what was written outlives the end of the agent, by whatever signal, but not
/// a power cut.
final class OutputWriter: Sendable {
  typealias Say = @Sendable (AgentLog.Priority, String) -> Void

  private struct Inbox {
    var lines: [ReportLine] = []
    var isAnnounced = false
    var counters = OutputCounters()
  }

  private let thread = PermanentThread(name: "stalld-output")
  private let inbox = Mutex(Inbox())
  private let outputs: OutputSet

  /// Opens all outputs.
  ///
  /// `didWrite` is called on the writer's thread with the number of lines that are newly done with, in the order of submission:
  /// taken by every required output.
  ///
  /// - Throws: ``OutputError`` for the first output that cannot be used as it is configured.
  convenience init(settings: [AgentSettings.Output], didWrite: @escaping @Sendable (Int) -> Void) throws {
    try self.init(
      settings: settings, standardOutput: STDOUT_FILENO,
      say: { AgentLog.say($0, $0 == .error ? .outputFailed : nil, $1) }, didWrite: didWrite)
  }

  init(
    settings: [AgentSettings.Output], standardOutput: Int32, say: @escaping Say,
    didWrite: @escaping @Sendable (Int) -> Void
  ) throws {
    try thread.start()
    let loop = thread.loop!
    let keeper = RotatedFileKeeper(say: say)
    outputs = OutputSet(
      loop: loop, maker: DestinationMaker(standardOutput: standardOutput, keeper: keeper, say: say), say: say,
      didWrite: didWrite)
    let outputs = outputs
    do {
      try loop.performAndWait(name: "outputs are opened") {
        // What a full pipe or a file at its limit would end the process with becomes an error of the call.
        ThreadSignals.block([SIGPIPE, SIGXFSZ])
        outputs.didChange = { [weak self] counters in self?.inbox.withLock { $0.counters = counters } }
        try outputs.replace(settings)
      }
    } catch {
      thread.stop()
      throw error
    }
  }

  deinit { outputs.loop.perform { [outputs] in outputs.close() } }

  /// Takes lines: on any thread, in order, without waiting.
  func submit(_ lines: [ReportLine]) {
    guard !lines.isEmpty else { return }
    let isFirst = inbox.withLock { inbox in
      inbox.lines.append(contentsOf: lines)
      defer { inbox.isAnnounced = true }
      return !inbox.isAnnounced
    }
    if isFirst { outputs.loop.perform(name: "lines are written") { [self] in drain() } }
  }

  /// SIGHUP: files that were renamed are let go of, and what waits is tried at once.
  func reopen() {
    outputs.loop.perform(name: "outputs are opened anew") { [outputs] in outputs.reopen() }
  }

  /// Changes the outputs: those that stay keep their queues, those that go send what they can.
  ///
  /// `completion` is called on the writer's thread. With an error, everything is as it was before.
  func replace(
    _ settings: [AgentSettings.Output], completion: @escaping @Sendable (OutputError?) -> Void = { _ in }
  ) {
    outputs.loop.perform(name: "outputs are replaced") { [self] in
      drain()
      do throws(OutputError) {
        try outputs.replace(settings)
        completion(nil)
      } catch {
        completion(error)
      }
    }
  }

  /// What the outputs have done; on any thread.
  func counters() -> OutputCounters { inbox.withLock { $0.counters } }

  /// Waits until all required outputs have what was submitted, or the time is over; then closes all.
  ///
  /// Nothing may be submitted afterwards.
  func stop(within limit: Duration) {
    let done = TimedSemaphore()
    outputs.loop.perform(name: "outputs end") { [self] in
      drain()
      outputs.whenDone { done.post() }
    }
    let isDone = done.wait(for: limit)
    let closed = TimedSemaphore()
    outputs.loop.perform(name: "outputs are closed") { [outputs] in
      outputs.close()
      closed.post()
    }
    // A disk that does not answer keeps the thread; the process may end all the same.
    if closed.wait(for: isDone ? .seconds(2) : .milliseconds(200)) { thread.stop() }
  }

  private func drain() {
    let lines = inbox.withLock { inbox in
      inbox.isAnnounced = false
      defer { inbox.lines = [] }
      return inbox.lines
    }
    if !lines.isEmpty { outputs.take(lines) }
  }
}
