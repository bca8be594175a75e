/// What a loop was doing when it was sampled: `loop.phase`, the transition that began the turn.
package enum LoopPhase: String, Sendable {
  case idle
  case beforeSources = "before-sources"
  case afterWaiting = "after-waiting"
  /// A heartbeat has been queued and not been run.
  case heartbeat
}

/// The values of `loop.kind` that this package writes; a host may have others.
package enum LoopKind {
  package static let loop = "loop"
  package static let foundation = "foundation"
  package static let mainQueue = "main-queue"
  package static let taskPool = "task-pool"
  package static let cooperativePool = "cooperative-pool"
}
