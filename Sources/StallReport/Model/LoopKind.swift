/// What a loop was doing when it was sampled: `loop.phase`, the transition that began the turn.
package enum LoopPhase: String, Sendable, CaseIterable {
  case idle
  case beforeSources = "before-sources"
  case afterWaiting = "after-waiting"
  /// A heartbeat has been queued and not been run.
  case heartbeat
}

/// The values of `loop.kind`.
package enum LoopKind {
  package static let loop = "loop"
  package static let foundation = "foundation"
  /// An event loop of SwiftNIO.
  package static let nio = "nio"
  /// Any other loop of one thread that its service describes.
  package static let executor = "executor"
  /// A loop that says itself when it is busy, through `stallmonitor.h`.
  package static let ownLoop = "c"
  package static let mainQueue = "main-queue"
  /// A thread of Swift concurrency.
  package static let taskPool = "task-pool"
  package static let cooperativePool = "cooperative-pool"

  /// All kinds in the order of the schema, with the noun for it in a report's message.
  package static let nouns: KeyValuePairs = [
    loop: "loop", foundation: "loop", nio: "loop", executor: "loop", ownLoop: "loop", mainQueue: "queue",
    taskPool: "thread", cooperativePool: "pool",
  ]

  /// The noun for a kind in a report's message.
  static func noun(of kind: String) -> String { nouns.first { $0.key == kind }?.value ?? "loop" }
}
