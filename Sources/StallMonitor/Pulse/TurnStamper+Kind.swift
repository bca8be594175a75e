import StallReport

extension TurnStamper.Kind {
  /// The kind as a report names it.
  var reportName: String {
    switch self {
    case .loop: LoopKind.loop
    case .foundation: LoopKind.foundation
    case .mainQueue: LoopKind.mainQueue
    }
  }
}

extension TurnStamper {
  /// Whether a stack shows more runs of Foundation's loop than are known: a nested run in a private mode, which no
  /// observer in the common modes sees.
  func isInUnseenRun(_ stack: [StackFrame]) -> Bool {
    // On a worker that serves the main queue such a run is the queue's own delay.
    guard kind != .mainQueue else { return false }
    // `__CFRunLoopRun`, once for each run (CFRunLoop.c).
    return stack.count { $0.symbol == "__CFRunLoopRun" } > knownFoundationRuns
  }
}
