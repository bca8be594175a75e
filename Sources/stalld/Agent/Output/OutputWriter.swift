import Glibc
import LoopEngine
import StallMonitor

/// Writes report lines to all outputs, each on a thread of its own: a slow disk stops neither the agent's loop nor another output.
///
/// It never wakes up without lines. Written lines outlive the agent, whatever signal ends it.
/// Whether they outlive a power cut depends on the file's `fsync` setting.
final class OutputWriter: Sendable {
  typealias Say = @Sendable (AgentLog.Priority, String) -> Void

  private let outputs: OutputSet
  /// Changes the outputs, which may wait for one that hangs; started by the first change.
  private let changes = PermanentThread(name: "stalld-outputs")

  /// Opens all outputs.
  ///
  /// `didWrite` is called, on any thread, with the number of lines that are newly done with, in the order of submission:
  /// taken by every required output.
  ///
  /// - Throws: ``OutputError`` for the first output that cannot be used as it is configured.
  init(
    settings: [AgentSettings.Output], standardOutput: Int32 = STDOUT_FILENO,
    say: @escaping Say = AgentLog.sayOfOutput, didWrite: @escaping @Sendable (Int) -> Void
  ) throws {
    let keeper = RotatedFileKeeper(say: say)
    outputs = OutputSet(
      maker: DestinationMaker(standardOutput: standardOutput, keeper: keeper, say: say), say: say, didWrite: didWrite)
    try outputs.replace(settings)
  }

  deinit { outputs.close(within: .zero) }

  /// Reports that an earlier run has written, by the path of the file that alone has them: that one does not get them again.
  ///
  /// Before any line is submitted.
  func remember(_ known: [String: KnownReports]) { outputs.remember(known) }

  /// Takes lines: on any thread, in order, without waiting.
  func submit(_ lines: [ReportLine]) { if !lines.isEmpty { outputs.submit(lines) } }

  /// Handles SIGHUP: closes renamed files, and retries queued lines at once.
  func reopen() { outputs.reopen() }

  /// Changes the outputs: those that stay keep their queues, those that go send what they can.
  ///
  /// `completion` is called on a thread of the writer's, or on the calling thread if that thread cannot be started. With an error,
  /// everything is as it was before.
  func replace(
    _ settings: [AgentSettings.Output], completion: @escaping @Sendable (OutputError?) -> Void = { _ in }
  ) {
    do { try changes.start() } catch { return completion(OutputError("outputs", "\(error)")) }
    changes.perform(name: "outputs are replaced") { [outputs] in
      do throws(OutputError) {
        try outputs.replace(settings)
        completion(nil)
      } catch {
        completion(error)
      }
    }
  }

  /// What the outputs have done; on any thread, and without waiting for any of them.
  func counters() -> OutputCounters { outputs.counters }

  /// Waits until all required outputs have what was submitted, or the time is over; then closes all.
  ///
  /// Nothing may be submitted afterwards.
  func stop(within limit: Duration) {
    let done = WakeSemaphore()
    outputs.whenDone { done.post() }
    let isDone = done.wait(for: limit)
    // A disk that does not answer keeps its thread; the process may end nevertheless.
    outputs.close(within: isDone ? .seconds(2) : .milliseconds(200))
  }
}
