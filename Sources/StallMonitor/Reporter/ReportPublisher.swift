import CLinux
import PlatformLibc
import StallCapture
import StallDetection
import StallReport

/// Sends reports: numbers them, and reports the same stall once.
///
/// Belongs to the thread that names.
final class ReportPublisher {
  private static let longestFarewell: UInt64 = 1_000_000_000

  private let sink: any ReportSink
  let ledger: RepeatLedger
  private let telemetry: TelemetryExporter?
  /// How many lines were lost on their way here since the last call.
  private let takeLost: @Sendable () -> UInt64
  /// The number of the last line.
  private(set) var sequence: UInt64 = 0

  init(
    sink: any ReportSink, ledger: RepeatLedger, telemetry: TelemetryExporter? = nil,
    takeLost: @escaping @Sendable () -> UInt64
  ) {
    self.telemetry = telemetry
    self.sink = sink
    self.takeLost = takeLost
    self.ledger = ledger
  }

  /// Reports a stall that begins, unless it is the repetition of one that was reported.
  ///
  /// Returns whether it did.
  func begin(_ report: Report) -> Bool {
    guard ledger.begin(report, at: MonotonicClock.now()) == .report else { return false }
    send(report)
    return true
  }

  /// Reports that a stall continues.
  ///
  /// Returns whether the stall counts as reported from now on.
  func goOn(_ report: Report, isReported: Bool) -> Bool {
    guard isReported || ledger.promotes(report, at: MonotonicClock.now()) else { return false }
    send(report)
    return true
  }

  /// Reports, or counts, a stall that has ended.
  func end(_ report: Report, of episode: Episode, after progress: StallReporter.Progress) {
    let isReported = progress.isReported
    let now = MonotonicClock.now()
    // The samples may have shown another responsible function than the first one, and no `stall.ongoing` may have been due since it became
    // far longer than those that were reported.
    guard isReported || ledger.begin(report, at: now) == .report || ledger.promotes(report, at: now) else {
      if progress.hasWrittenDetail { _ = writeDetail(report, of: episode) }
      return count(report, at: now)
    }
    var report = report
    // A file is written before the line that names it; the agent knows a stall before its samples.
    if sink.details != .agent { report.detailFile = writeDetail(report, of: episode) }
    send(report)
    if sink.details == .agent { _ = writeDetail(report, of: episode) }
    telemetry?.count(report, isReported: true)
    ledger.didReport(report, at: now)
  }

  /// Reports a stall that the process is about to be aborted for, whether or not it was reported, and waits a while for the reader.
  func reportLast(_ report: Report) {
    send(report)
    sink.settle(within: Self.longestFarewell)
  }

  /// Passes on the samples of a stall that exist so far.
  ///
  /// Returns the path of the file that they go into; nil if they go into none.
  func writeDetail(_ report: Report, of episode: Episode) -> String? {
    let id = report.stallID
    switch sink.details {
    case .none: return nil
    case .agent:
      sink.writeDetail(StallDetail(stallID: id, bytes: episode.detailMessage(for: report)))
      return nil
    case .folder(let folder):
      sink.writeDetail(StallDetail(stallID: id, bytes: episode.detail(for: report)))
      return DetailFiles.path(of: id, in: folder)
    }
  }

  /// Reports once that the whole process was kept from running.
  func reportFreeze(_ report: Report) {
    let now = MonotonicClock.now()
    guard ledger.begin(report, at: now) == .report else { return count(report, at: now) }
    send(report)
    telemetry?.count(report, isReported: true)
    ledger.didReport(report, at: now)
  }

  private func count(_ report: Report, at now: UInt64) {
    telemetry?.count(report, isReported: false)
    ledger.didCount(report, at: now)
  }

  /// Sends the summaries that are due.
  ///
  /// Returns when the next one is, or nil.
  func summarize(closing: Bool = false) -> UInt64? {
    guard let next = ledger.nextSummary else { return nil }
    let now = MonotonicClock.now()
    guard closing || next <= now else { return next }
    for report in ledger.summaries(at: now, closing: closing) { send(report) }
    return ledger.nextSummary
  }

  private func send(_ report: Report) {
    var report = report
    sequence += 1
    report.sequence = sequence
    report.droppedLines = sink.takeDropped() + takeLost()
    let isOver = report.event != .started && report.event != .ongoing
    let limit = report.isNamed ? Report.longestLine : Report.longestUnnamedLine
    var line = OutgoingLine(
      report.line(limit: limit), stall: .init(id: report.stallID, isOver: isOver),
      droppedBefore: report.droppedLines)
    if report.detailFile != nil {
      report.detailFile = nil
      line.bytesWithoutDetail = report.line(limit: limit)
    }
    sink.write(line)
  }

  /// 128 random bits in hexadecimal.
  static func makeIdentifier() -> String {
    var bytes: (UInt64, UInt64) = (0, 0)
    let filled = withUnsafeMutableBytes(of: &bytes) { clinux_random($0.baseAddress, $0.count) }
    if !filled { bytes = (MonotonicClock.now(), UInt64(getpid())) }
    return withUnsafeBytes(of: &bytes) { hexadecimal($0) }
  }
}
