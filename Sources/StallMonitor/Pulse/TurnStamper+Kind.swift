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
  /// How many runs of Foundation's loop are known to be in progress; nil where others are no concern.
  ///
  /// From any thread. On a worker that serves the main queue such a run is the queue's own delay.
  var expectedFoundationRuns: Int? { kind == .mainQueue ? nil : knownFoundationRuns }
}

/// Runs of Foundation's loop on a stack.
///
/// More than are known are nested ones in a private mode, which no observer in the common modes sees.
enum FoundationRuns {
  /// How many there are, by the names of functions.
  ///
  /// Once for each run (CFRunLoop.c). The inner function is not exported: a stripped library, as Debian's is, shows the outer one.
  static func count(in stack: [StackFrame]) -> Int {
    let runs = stack.count { $0.symbol == "__CFRunLoopRun" }
    return runs > 0 ? runs : stack.count { $0.symbol == "CFRunLoopRunSpecific" }
  }
}
