/// A snapshot of a watched loop: its name, kind, thread and threshold.
public struct WatchedLoopStatus: Sendable, Hashable {
  /// The loop's name in reports; the main loop is `main`.
  public let name: String
  /// Which run loop it is, as a report's `loop.kind` says it: `loop`, `foundation`, `main-queue`, `nio` and so on.
  ///
  /// Nil for a main loop that has not turned yet. It changes if the service changes from a run loop
  /// to `dispatchMain()`.
  public let kind: String?
  /// The thread that runs it; nil if none does at this moment, as for a main queue without work.
  public let threadID: Int32?
  /// How long a turn of the loop may take now before it is a stall.
  ///
  /// Of tasks, this is the threshold of those that are not of low priority.
  public let threshold: Duration
}
