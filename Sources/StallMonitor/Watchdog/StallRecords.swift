import StallCapture
import StallReport

/// Keeps the data of each current stall that remains after the process has ended: its record, and
/// its slot on the recovery page.
///
/// Only of stalls with an exact end (``WatchedLoop/hasExactEnd``): a process that ends between another one's end and the next check would be
/// said to have ended in that stall.
///
/// Belongs to the watchdog's thread.
final class StallRecords {
  private let origin: Report.Origin
  private let recorder: FatalRecorder?
  private let recovery: RecoveryPage?
  private let publisher: ReportPublisher
  private let sink: any ReportSink

  init(
    origin: Report.Origin, recorder: FatalRecorder?, recovery: RecoveryPage?, publisher: ReportPublisher,
    sink: any ReportSink
  ) {
    self.origin = origin
    self.recorder = recorder
    self.recovery = recovery
    self.publisher = publisher
    self.sink = sink
  }

  /// Whether stalls are recorded, so that each loop needs memory for it.
  var isRecording: Bool { recorder != nil }

  /// Has the loop note for the agent when the stall is over; before the agent hears of it.
  func begin(_ loop: WatchedLoop) {
    guard let recovery, let episode = loop.episode, loop.hasExactEnd else { return }
    let pulse = loop.subject.pulse
    guard let note = loop.subject.records.note else { return recovery.setIncomplete() }
    note.begin(episode.id, turn: episode.turn.raw, since: episode.start + episode.frozen) { pulse.episodeEnd }
  }

  /// Records the stall as it would be reported if the process ended now.
  func keep(_ loop: WatchedLoop, aborting: Bool = false) {
    let pulse = loop.subject.pulse
    if let episode = loop.episode { loop.subject.records.note?.update(since: episode.start + episode.frozen) }
    guard let recorder, loop.hasExactEnd, let record = loop.subject.records.record, let turn = loop.episode?.turn,
      var report = loop.report(.fatal, end: MonotonicClock.now(), origin: origin), pulse.episodeEnd == nil
    else { return }
    report.sequence = publisher.sequence + 1
    report.isAborting = aborting
    if !sink.writtenDetails.contains(report.stallID) { report.detailFile = nil }
    recorder.keep(report, in: record, turn: turn) { pulse.episodeEnd != nil }
  }

  /// The stall is over, or is no longer watched; allocates nothing.
  func end(_ loop: WatchedLoop, at time: UInt64) {
    loop.subject.records.record?.end()
    loop.subject.records.note?.close(at: time)
  }

  /// Sends what earlier processes of the service left, as far as the sink takes it.
  func sendEarlier() { recorder?.sendEarlier(to: sink) }

  /// Closes the sink, and removes what it is rid of.
  func close() {
    sink.close()
    recorder?.finish(sink)
  }

  /// Closes the sink alone.
  func abandon() { sink.close() }
}
