import StallReport

/// What an action learns of a stall.
///
/// Words are those of the report line (`Config/schema/stall-report.schema.json`).
public struct StallNotice: Sendable, Hashable {
  /// The same in all reports of one stall.
  public var id: String
  /// `stall.started`, `stall.ongoing` or, if it is over, `stall.ended`.
  public var event: String
  /// How long the loop has been blocked.
  public var duration: Duration
  /// Why: `running`, `lock`, `io` and so on.
  public var cause: String
  /// The innermost function of the service's own code, if it is known.
  public var culprit: String?
  /// The same for stalls of the same kind; nil if the stack is not known.
  public var fingerprint: String?
  /// The loop's name.
  public var loopName: String
  /// The detail file, if it has been written.
  public var detailFile: String?
  /// Whether the stall is reported by lines, and not only counted as a repetition of another one.
  public var isTold: Bool
  /// The report as of now: one line of JSON, without a newline.
  public var line: String
}

extension StallNotice {
  init(_ report: Report, isReported: Bool) {
    self.init(
      id: report.stallID, event: report.event.rawValue,
      duration: .nanoseconds(Int64(clamping: report.durationNanoseconds)),
      cause: report.verdict.cause.rawValue, culprit: report.culprit?.name, fingerprint: report.fingerprint,
      loopName: report.loop.name, detailFile: report.detailFile, isTold: isReported,
      line: String(decoding: report.line().dropLast(), as: UTF8.self))
  }
}
