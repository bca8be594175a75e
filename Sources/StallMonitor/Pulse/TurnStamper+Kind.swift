import StallReport

extension TurnStamper.Kind {
  /// The kind that a report gives.
  var loopKind: LoopKind {
    switch self {
    case .loop: .loop
    case .foundation: .foundation
    case .mainQueue: .mainQueue
    }
  }
}

extension TurnStamper {
  /// Whether a stack shows more runs of Foundation's loop than are known: a nested run in a private mode, which no
  /// observer in the common modes sees.
  func isInUnseenRun(_ stack: [StackFrame]) -> Bool {
    // On a worker that serves the main queue such a run is the queue's own delay.
    guard kind != .mainQueue else { return false }
    // Once for each run (CFRunLoop.c). The inner one is not exported: a stripped library, as Debian's is, shows the outer one.
    let runs = stack.count { $0.symbol == "__CFRunLoopRun" }
    return (runs > 0 ? runs : stack.count { $0.symbol == "CFRunLoopRunSpecific" }) > knownFoundationRuns
  }
}
