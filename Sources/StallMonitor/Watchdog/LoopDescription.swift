import LoopEngine
import StallReport

/// What a loop is doing, in the words of a report.
///
/// Reads without a lock what the loop publishes.
enum LoopDescription {
  /// The current mode, and what the loop is calling out to: `timer "name" (Module/File.swift:12)`.
  static func current(of loop: Loop) -> (mode: String?, callout: String?) {
    let snapshot = loop.snapshot
    return (snapshot.mode?.description, snapshot.callout.map(text))
  }

  private static func text(of callout: Loop.Callout) -> String {
    let name = callout.name.map { " \"\($0)\"" } ?? ""
    let place = callout.fileID.map { " (\($0):\(callout.line))" } ?? ""
    return callout.kind.reportName + name + place
  }
}

extension Loop.Callout.Kind {
  fileprivate var reportName: String {
    switch self {
    case .block: "block"
    case .timer: "timer"
    case .source: "source"
    case .descriptor: "descriptor"
    case .observer: "observer"
    case .mainQueue: "main queue"
    case .idle: "idle work"
    case .flush: "flush"
    }
  }
}

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
  /// Whether a stack shows more runs of Foundation's loop than its observers have told of: a nested run in a private mode, which no
  /// observer in the common modes sees.
  func isInUnseenRun(_ stack: [StackFrame]) -> Bool {
    // On a worker that serves the main queue such a run is the queue's own delay.
    guard kind != .mainQueue else { return false }
    // `__CFRunLoopRun`, once for each run (CFRunLoop.c).
    return stack.count { $0.symbol == "__CFRunLoopRun" } > observedFoundationRuns
  }
}
