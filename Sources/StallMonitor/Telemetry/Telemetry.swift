/// The service's log and metrics, which get what the monitor reports about itself.
///
/// Stalls go to the sink. Both are called on the thread of ``TelemetryExporter``, one at a time.
struct Telemetry: Sendable, Equatable {
  var log: (any StateLog)?
  var meters: (any StallMeters)?

  /// The same was handed in.
  static func == (a: Telemetry, b: Telemetry) -> Bool { a.log === b.log && a.meters === b.meters }
}

/// Metrics of the service.
protocol StallMeters: AnyObject, Sendable {
  /// Adds what has been counted since the last call.
  func add(_ tally: StallTally)

  /// Adds the turns that a loop has made since the last call.
  func add(_ turns: TurnHistogram, of loop: String)
}
