/// A report as it is written: one JSON object with its newline, and what outputs and counters need to know of it.
struct ReportLine: Sendable {
  var bytes: [UInt8]
  var event: String
  /// `log.level` is `error`.
  var isError: Bool
  var service: String
  var cause: String
  var durationMilliseconds: Double
  var stallID: String
  var processID: Int32
  var userID: UInt32 = 0
  /// The unit or container that it came from, as the kernel tells it; empty if there is none.
  var place = ""
  /// By which it is recognised when it comes again.
  var identity: ReportIdentity?

  /// No line at all.
  static let none = ReportLine(
    bytes: [], event: "", isError: false, service: "", cause: "", durationMilliseconds: 0, stallID: "", processID: 0)

  /// Takes frames out of the middles of its stacks, and threads, if it is longer than what outputs take.
  mutating func shorten() {
    guard bytes.count > Ingest.longestReport,
      case .completed(let shorter, _) = ReportCompletion({ _, _, _ in nil }).complete(Array(bytes.dropLast()))
    else { return }
    bytes = shorter + [UInt8(ascii: "\n")]
  }
}
