extension Loop {
  /// Why a run ended; raw values are CoreFoundation's.
  public enum RunResult: Int32, Sendable {
    /// The mode has nothing left to serve, or had nothing to begin with.
    case finished = 1
    /// ``Loop/stop()`` ended it.
    case stopped = 2
    /// The time limit was reached.
    case timedOut = 3
    /// It was asked to return after one source, and served one.
    case handledSource = 4
  }
}
