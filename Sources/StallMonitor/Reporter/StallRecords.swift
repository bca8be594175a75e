import StallCapture
import StallDetection
import StallReport

/// Keeps the data of each current stall that remains after the process has ended: its record, and
/// its slot on the recovery page.
///
/// Only of stalls with an exact end (``StalledLoop/hasExactEnd``): a process that ends between another one's end and the next check would be
/// said to have ended in that stall.
///
/// Belongs to the thread that names.
final class StallRecords {
  private let recorder: FatalRecorder?
  private let recovery: RecoveryPage?
  private let publisher: ReportPublisher
  private let sink: any ReportSink

  init(
    recorder: FatalRecorder?, recovery: RecoveryPage?, publisher: ReportPublisher, sink: any ReportSink
  ) {
    self.recorder = recorder
    self.recovery = recovery
    self.publisher = publisher
    self.sink = sink
  }

  /// Has the loop note for the agent when the stall is over; before the agent hears of it.
  func begin(_ update: StallUpdate) {
    let (loop, episode) = (update.loop, update.episode)
    guard let recovery, loop.hasExactEnd else { return }
    guard let note = loop.publication.records.note else { return recovery.setIncomplete() }
    note.begin(episode.id, turn: episode.turn.raw, since: (episode.start + episode.frozen).nanoseconds) {
      loop.isOver(episode.turn) ? (loop.pulse.episodeEnd ?? .now()).nanoseconds : nil
    }
  }

  /// Records the stall as it would be reported if the process ended now.
  func keep(_ update: StallUpdate, _ report: Report, aborting: Bool = false) {
    let (loop, episode) = (update.loop, update.episode)
    loop.publication.records.note?.update(since: (episode.start + episode.frozen).nanoseconds)
    guard let recorder, loop.hasExactEnd, let record = loop.publication.records.record, !loop.isOver(episode.turn)
    else { return }
    var report = report
    (report.event, report.sequence, report.isAborting) = (.fatal, publisher.sequence + 1, aborting)
    if !sink.writtenDetails.contains(report.stallID) { report.detailFile = nil }
    recorder.keep(report, in: record, turn: episode.turn) { loop.isOver(episode.turn) }
  }

  /// The stall is over, or is no longer watched; allocates nothing.
  func end(_ loop: StalledLoop, at time: UInt64) {
    loop.publication.records.record?.end()
    loop.publication.records.note?.close(at: time)
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
