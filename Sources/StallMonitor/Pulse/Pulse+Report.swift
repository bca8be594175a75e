import StallReport

extension Pulse.Phase {
  /// The phase as a report names it.
  var reported: LoopPhase {
    switch self {
    case .idle: .idle
    case .beforeSources: .beforeSources
    case .afterWaiting: .afterWaiting
    case .heartbeat: .heartbeat
    }
  }
}
