/// The search for a run loop that the service may make for its main thread.
///
/// All members on any thread.
protocol RunLoopSearch: Sendable {
  /// Whether the search goes on.
  var isSought: Bool { get }

  /// Begins to watch the run loop, if it exists.
  func look()

  /// Looks no more; a run loop that was found stays watched.
  func giveUpSearch()
}
