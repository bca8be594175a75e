/// The search for a run loop that the service may make for its main thread.
///
/// All members on any thread.
protocol RunLoopSearch: Sendable {
  /// Whether the search goes on.
  var isSought: Bool { get }

  /// Begins to watch the run loop, if it exists.
  func look()

  /// Notices that the turn is over in which the run loop was found; called before each check.
  func update()

  /// Looks no more; a run loop that was found stays watched.
  func giveUpSearch()
}
