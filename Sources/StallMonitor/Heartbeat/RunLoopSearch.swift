/// The search for the main thread's run loop, which the service may create late.
///
/// Thread-safe.
protocol RunLoopSearch: Sendable {
  /// Whether the search continues.
  var isSought: Bool { get }

  /// Whether the search has not ended, and the run loop exists.
  var hasAppeared: Bool { get }

  /// Begins to watch the run loop, if it exists.
  ///
  /// The run loop may make a mode for its observers, which has descriptors: call it on a thread with the service's table.
  func look()

  /// Notices that the turn is over in which the run loop was found; called before each check.
  func update()

  /// Ends the search. A run loop that was found stays watched.
  func giveUpSearch()
}
