/// What a loop was doing when it was sampled: `loop.phase`, the transition that began the turn.
package enum LoopPhase: String, Sendable, CaseIterable {
  case idle
  case beforeSources = "before-sources"
  case afterWaiting = "after-waiting"
  /// A heartbeat has been queued and not been run.
  case heartbeat
}

/// A kind of loop: the values of `loop.kind`, in the order of the schema.
package enum LoopKind: String, Sendable, CaseIterable {
  case loop
  case foundation
  /// An event loop of SwiftNIO.
  case nio
  /// Any other loop of one thread that its service describes.
  case executor
  /// A loop that says itself when it is busy, through `stallmonitor.h`.
  case ownLoop = "c"
  case mainQueue = "main-queue"
  /// A thread of Swift concurrency.
  case taskPool = "task-pool"
  case cooperativePool = "cooperative-pool"

  /// The noun for it in a report's message.
  var noun: String {
    switch self {
    case .loop, .foundation, .nio, .executor, .ownLoop: "loop"
    case .mainQueue: "queue"
    case .taskPool: "thread"
    case .cooperativePool: "pool"
    }
  }

  /// Whether a report is about a task that blocked its thread.
  var isOfTasks: Bool {
    switch self {
    case .taskPool: true
    case .loop, .foundation, .nio, .executor, .ownLoop, .mainQueue, .cooperativePool: false
    }
  }

  /// Whether it has threads that come and go, instead of one.
  package var hasChangingThreads: Bool {
    switch self {
    case .taskPool, .cooperativePool: true
    case .loop, .foundation, .nio, .executor, .ownLoop, .mainQueue: false
    }
  }
}
