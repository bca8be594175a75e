/// A handle that ends the watch of one loop.
///
/// ``StallMonitor/watch(_:name:threshold:)`` and the similar methods return it. The loop is watched
/// until ``stop()``, the end of its thread, or the end of the monitor, whether or not this is kept.
/// Thread-safe.
public final class LoopWatch: Sendable {
  /// The loop's name in reports.
  public let name: String
  /// How long a turn of the loop may take before it is a stall.
  ///
  /// The value when the watch began. If the loop has no threshold of its own, the agent can change it
  /// later; ``StallMonitor/watchedLoops`` has the current one.
  public let threshold: Duration

  private enum Subject {
    /// The monitor did not watch when this was made.
    case nothing
    case loop(RegisteredLoop)
    case heartbeat(ThreadHeartbeat, of: StallMonitor)
  }

  private let subject: Subject

  init(_ loop: RegisteredLoop) {
    (name, threshold, subject) = (loop.name, loop.threshold, .loop(loop))
  }

  init(_ heartbeat: ThreadHeartbeat, of monitor: StallMonitor, name: String, threshold: Duration) {
    (self.name, self.threshold, subject) = (name, threshold, .heartbeat(heartbeat, of: monitor))
  }

  /// What a monitor returns that does not watch.
  init(unwatched name: String, threshold: Duration) {
    (self.name, self.threshold, subject) = (name, threshold, .nothing)
  }

  /// Whether the loop is watched, or will be as soon as it turns.
  ///
  /// False if the monitor does not watch, after ``stop()``, when the loop's thread has ended, and in the child of a fork.
  public var isWatching: Bool {
    switch subject {
    case .nothing: false
    case .loop(let loop): loop.isWatching
    case .heartbeat(let heartbeat, let monitor): heartbeat.isBeating && monitor.isWatching
    }
  }

  /// Ends the watch of this loop; its name is free again.
  ///
  /// A stall that lasts at this moment gets its `stall.ended`, marked `watch_ended`. Idempotent, from any thread; returns without waiting
  /// for the report. In the child of a fork nothing happens.
  public func stop() {
    switch subject {
    case .nothing: break
    case .loop(let loop): loop.end()
    case .heartbeat(let heartbeat, let monitor): if monitor.isWatching { heartbeat.stop() }
    }
  }
}
