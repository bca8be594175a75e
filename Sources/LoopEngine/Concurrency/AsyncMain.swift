import CLinux

extension Loop {
  /// Keeps an `@main async` program on its main thread, with `Loop.main` as the loop that runs the main actor.
  ///
  /// Call it as the first thing in `static func main() async`, before any `await`. Without it, the main thread of such
  /// a program ends in `dispatch_main()`, and a worker thread then serves the main queue and the main actor. When
  /// `main()` returns, the program exits as usual.
  ///
  /// - Returns: False if the Swift runtime has no hook for this, or the program has no libdispatch.
  @discardableResult
  public static func hostAsyncMain() -> Bool {
    guard MainQueue.isAvailable else { return false }
    return clinux_host_async_main {
      while true { Loop.main.run() }
    } != 0
  }
}
