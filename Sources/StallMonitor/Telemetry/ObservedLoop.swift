import StallReport

/// A watched loop, as the log and the metrics of the service see it.
///
/// Belongs to the watchdog's thread.
protocol ObservedLoop: AnyObject {
  var name: String { get }
  /// Which run loop it is, as far as that is known yet.
  var knownKind: LoopKind? { get }
  /// The kinds that have been logged.
  var loggedKinds: Set<LoopKind> { get set }
  /// The thread that runs it; nil if none does at this moment.
  var threadID: Int32? { get }
  /// How long a turn may take before it is a stall.
  var thresholdDuration: Duration { get }
  var isStalled: Bool { get }
}

/// A watched loop whose turns may be counted.
struct CountedLoop: Sendable {
  /// The same for the loop as long as it is watched.
  var id: ObjectIdentifier
  var name: String
  /// What reads its count of turns; nil if it has none, or is not made yet.
  var meter: @Sendable () -> TurnMeter?
}
