import PlatformLibc

/// Signals that a thread gets for its own system calls.
package enum ThreadSignals {
  /// Blocks them on the calling thread alone: other threads, and programs that those start, have them as before.
  package static func block(_ signals: [Int32]) {
    var set = sigset_t()
    sigemptyset(&set)
    for signal in signals { sigaddset(&set, signal) }
    pthread_sigmask(SIG_BLOCK, &set, nil)
  }

  /// Blocks them on the calling thread while `body` runs; what came meanwhile is delivered then.
  package static func blocking<Result>(_ signals: [Int32], _ body: () -> Result) -> Result {
    var before = sigset_t()
    pthread_sigmask(SIG_BLOCK, nil, &before)
    block(signals)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    return body()
  }
}
