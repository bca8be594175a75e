import StallCapture
import StallReport

/// Runs the service's actions for stalls that last.
///
/// Belongs to the thread that names.
final class ActionRunner {
  /// Calls the service's closures.
  private let courier: Courier?
  private let publisher: ReportPublisher
  private let records: StallRecords
  private let writtenDetails: WrittenDetails

  init(courier: Courier?, publisher: ReportPublisher, records: StallRecords, writtenDetails: WrittenDetails) {
    self.courier = courier
    self.publisher = publisher
    self.records = records
    self.writtenDetails = writtenDetails
  }

  /// Runs the actions that are due.
  ///
  /// Call it after the stall's lines were written.
  func run(_ update: StallUpdate, _ report: Report, _ progress: inout StallReporter.Progress) {
    guard !update.actions.isEmpty else { return }
    var report = report
    if update.actions.contains(.writeDetailFile) {
      progress.hasWrittenDetail = true
      progress.detailFile = publisher.writeDetail(report, of: update.episode)
      report.detailFile = progress.detailFile
      if update.event != .ended { records.keep(update, report) }
    }
    report.sequence = publisher.sequence + (progress.isReported ? 0 : 1)
    call(update.actions, of: report, isReported: progress.isReported)
    if update.actions.contains(.abort), update.loop.isVital { abort(update, report) }
  }

  /// Has the closures called, with the path of the detail file if that has been written by then.
  private func call(_ due: [StallAction.Kind], of report: Report, isReported: Bool) {
    guard let courier else { return }
    var other = report
    other.detailFile = nil
    let (notice, noticeWithoutDetail) = (
      StallNotice(report, isReported: isReported), StallNotice(other, isReported: isReported)
    )
    for case .call(let handler) in due {
      courier.post { [writtenDetails] in
        let hasFile = notice.detailFile != nil && writtenDetails.contains(notice.id, within: DetailWriter.patience)
        OwnThreads.runForService { handler.body(hasFile ? notice : noticeWithoutDetail) }
      }
    }
  }

  /// Ends the process, unless the stall is over.
  private func abort(_ update: StallUpdate, _ report: Report) {
    guard !update.loop.isOver(update.episode.turn) else { return }
    var last = report
    (last.event, last.isAborting, last.time) = (.ongoing, true, .now())
    last.durationNanoseconds = update.episode.duration(at: .now())
    publisher.reportLast(last)
    records.keep(update, last, aborting: true)
    courier?.drain()
    ProcessAbort.happen(for: update.loop.threadID)
  }
}
