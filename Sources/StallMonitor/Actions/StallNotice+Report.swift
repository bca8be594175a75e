import StallReport

extension StallNotice {
  init(_ report: Report, isReported: Bool) {
    self.init(
      id: report.stallID, event: Event(rawValue: report.event.rawValue),
      duration: .nanoseconds(Int64(clamping: report.durationNanoseconds)),
      cause: Cause(rawValue: report.verdict.cause.rawValue), loopName: report.loop.name, culprit: report.culprit?.name,
      fingerprint: report.fingerprint, detailFile: report.detailFile, isReported: isReported,
      jsonLine: String(decoding: report.line().dropLast(), as: UTF8.self))
  }
}
