import StallCapture
import StallReport

/// Runs the service's actions for stalls that last.
///
/// Belongs to the watchdog's thread.
final class ActionRunner {
  private let origin: Report.Origin
  private let plan: ActionPlan
  /// Calls the service's closures.
  private let courier: Courier?
  private let publisher: ReportPublisher
  private let records: StallRecords
  private let writtenDetails: WrittenDetails

  init(
    origin: Report.Origin, plan: ActionPlan, courier: Courier?, publisher: ReportPublisher, records: StallRecords,
    writtenDetails: WrittenDetails
  ) {
    self.origin = origin
    self.plan = plan
    self.courier = courier
    self.publisher = publisher
    self.records = records
    self.writtenDetails = writtenDetails
  }

  /// When the next action of the current stall is due; nil if none is.
  func nextTime(for loop: WatchedLoop) -> UInt64? {
    guard let episode = loop.episode, let level = plan.nextLevel(done: loop.stall.progress.actionsDone) else {
      return nil
    }
    return episode.start + episode.frozen + level
  }

  /// Runs the actions that are due in the current stall.
  ///
  /// Call it after the stall's lines were written.
  func run(on loop: WatchedLoop, as event: Report.Event = .ongoing, at time: UInt64) {
    guard let episode = loop.episode else { return }
    let due = plan.due(after: episode.duration(at: time), done: loop.stall.progress.actionsDone)
    guard !due.isEmpty else { return }
    // It may have ended just now; then what is left is run when its end has been reported.
    if event != .ended, loop.subject.pulse.episodeEnd != nil { return }
    loop.stall.progress.actionsDone += due.count
    guard var report = loop.report(event, end: time, origin: origin) else { return }
    if due.contains(.writeDetailFile) {
      loop.stall.progress.hasWrittenDetail = true
      loop.stall.progress.detailFile = publisher.writeDetail(report, of: episode)
      report.detailFile = loop.stall.progress.detailFile
      if event != .ended { records.keep(loop) }
    }
    report.sequence = publisher.sequence + (loop.stall.progress.isReported ? 0 : 1)
    call(due, of: report, isReported: loop.stall.progress.isReported)
    if due.contains(.abort), loop.subject.isVital { abort(for: loop) }
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
  private func abort(for loop: WatchedLoop) {
    guard loop.subject.pulse.episodeEnd == nil else { return }
    guard var last = loop.report(.ongoing, end: MonotonicClock.now(), origin: origin) else { return }
    last.isAborting = true
    publisher.reportLast(last)
    records.keep(loop, aborting: true)
    courier?.drain()
    ProcessAbort.happen(for: loop.subject.thread.id)
  }
}
