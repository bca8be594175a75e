/// A report as it is written: one JSON object with its newline, and what outputs and counters need to know of it.
struct ReportLine: Sendable {
  var bytes: [UInt8]
  /// `stall.started`, `stall.ongoing` and so on.
  var event: String
  /// `log.level` is `error`.
  var isError: Bool
  var service: String
  var cause: String
  var durationMilliseconds: Double
  var stallID: String
  var processID: Int32
}
