import StallReport

/// Where a loop is.
package enum TurnPhase: UInt64, Sendable {
  /// Waiting, or not running at all.
  case idle = 0
  /// Between BeforeSources and BeforeWaiting, or the next pass.
  case beforeSources = 1
  /// Between AfterWaiting and the next BeforeSources.
  case afterWaiting = 2
  /// A heartbeat has been queued and not been run.
  case heartbeat = 3

  /// The phase as a report names it.
  package var reported: LoopPhase {
    switch self {
    case .idle: .idle
    case .beforeSources: .beforeSources
    case .afterWaiting: .afterWaiting
    case .heartbeat: .heartbeat
    }
  }
}

/// The word that a loop publishes at each transition: when the turn began, shifted by two, and the phase.
///
/// The time is a reading of the processor's counter or of `CLOCK_MONOTONIC`. Two turns never have the same word: their times differ. It is
/// its own sequence number.
package struct TurnWord: Equatable, Sendable {
  package var raw: UInt64

  package init(raw: UInt64) { self.raw = raw }
  package init(phase: TurnPhase, stamp: UInt64) { raw = stamp << 2 | phase.rawValue }

  package var phase: TurnPhase { TurnPhase(rawValue: raw & 3) ?? .idle }
  /// When the turn began; for `idle`, when the turn before it began.
  package var stamp: UInt64 { raw >> 2 }
}
