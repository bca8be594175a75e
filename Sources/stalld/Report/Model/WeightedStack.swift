/// A stack that stalls of one service had for one cause, with all their time.
struct WeightedStack {
  /// A number of the summary's stack table: see ``ReportSummary/frames(of:)``.
  var frames: UInt32
  /// A number of ``ReportSummary/causes``.
  var cause: UInt8
  /// A number of ``ReportSummary/texts``.
  var service: UInt32
  var milliseconds: Double = 0
  /// Stalls.
  var count = 0
}
