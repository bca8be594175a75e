import StallCapture
import StallReport

/// Makes reports of what the watchdog hands over: names the frames, decides what is reported, and runs the service's actions.
///
/// Belongs to the thread that names.
final class StallReporter {
  /// What has been done about a stall.
  struct Progress {
    /// It has been reported.
    var isReported = false
    /// Whether an action has passed its samples on, and the path of the file that they go into, unless the agent writes it.
    var hasWrittenDetail = false
    var detailFile: String?
    fileprivate let loop: StalledLoop
  }

  /// How long a report waits for names, in nanoseconds.
  private static let namingTime: UInt64 = 1_000_000_000

  /// Names are no longer waited for after this time.
  var latest = UInt64.max
  private let origin: Report.Origin
  private let namer: FrameNamer
  private let publisher: ReportPublisher
  private let records: StallRecords
  private let actions: ActionRunner
  /// Wakes the watchdog.
  private let news: @Sendable () -> Void
  /// The stalls that last.
  private var open: [String: Progress] = [:]

  init(
    origin: Report.Origin, namer: FrameNamer, publisher: ReportPublisher, records: StallRecords,
    actions: ActionRunner, news: @escaping @Sendable () -> Void
  ) {
    self.origin = origin
    self.namer = namer
    self.publisher = publisher
    self.records = records
    self.actions = actions
    self.news = news
  }

  /// Prepares the thread; the first call.
  func begin() {
    namer.prepareThread()
    records.sendEarlier()
  }

  /// Reports what has happened to a stall, as far as a line is due.
  func take(_ update: StallUpdate) {
    var update = update
    let id = update.episode.id
    namer.namesFrames = update.namesFrames
    namer.deadline = min(update.handedOver + Self.namingTime, latest)
    update.episode.name(by: namer)
    if update.episode.hasUnseenRun({ namer.frames(of: $0, in: update.loop.runLoopModule) }) {
      update.loop.unseenRun.note(update.episode.turn)
      news()
      // The watchdog hands over its end.
      if update.event != .ended { return }
      update.isIgnored = true
    }
    var progress = open[id] ?? Progress(loop: update.loop)
    var report = update.report(of: origin)
    report.detailFile = progress.detailFile
    if update.event == .ended {
      finish(update, report, progress)
      open[id] = nil
    } else {
      goOn(update, report, &progress)
      open[id] = progress
    }
    namer.trim()
  }

  private func goOn(_ update: StallUpdate, _ report: Report, _ progress: inout Progress) {
    if update.event == .started {
      records.begin(update)
      if update.isReportDue { progress.isReported = publisher.begin(report) }
    } else if update.isReportDue {
      progress.isReported = publisher.goOn(report, isReported: progress.isReported)
    }
    records.keep(update, report)
    actions.run(update, report, &progress)
  }

  private func finish(_ update: StallUpdate, _ report: Report, _ progress: Progress) {
    // First of all: the same stall is never reported as ended and as fatal.
    records.end(update.loop, at: update.end.nanoseconds)
    var progress = progress
    if progress.isReported || !update.isIgnored { publisher.end(report, of: update.episode, after: progress) }
    if !update.watchEnded, !update.isIgnored { actions.run(update, report, &progress) }
  }

  /// Reports once that the whole process was kept from running.
  func take(freeze report: Report) { publisher.reportFreeze(report) }

  /// Counts stalls of which nothing is known but how long they lasted together, and the loop, which is that of `update`.
  func take(lost count: UInt64, lasting total: UInt64, like update: StallUpdate) {
    publisher.ledger.didLose(count, lasting: total, like: update.report(of: origin), at: MonotonicClock.now())
  }

  /// Changes what is reported, from the next stall on.
  func tune(window: UInt64, budget: Int) { publisher.ledger.retune(window: window, budget: budget) }

  /// Sends the summaries that are due, and what earlier processes left; `closing` sends all summaries.
  ///
  /// Returns when the next one is due, or nil.
  func summarize(closing: Bool = false) -> UInt64? {
    let next = publisher.summarize(closing: closing)
    records.sendEarlier()
    return next
  }

  /// Gives back the memory for names: nothing has been named for a while.
  func release() { namer.release() }

  /// Sends all that is left; the last call.
  func end() {
    _ = summarize(closing: true)
    records.close()
  }

  /// Ends without memory: what is open is lost.
  func abandon() {
    for progress in open.values { records.end(progress.loop, at: MonotonicClock.now()) }
    records.abandon()
  }
}
