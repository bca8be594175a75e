import StallCapture
import StallDetection
import StallReport
import Synchronization

/// What the watchdog hands over of a stall at one moment: all that is known of it by then, without names.
struct StallUpdate: Sendable {
  let loop: StalledLoop
  /// The stall so far.
  var episode: Episode
  /// What has happened to the stall.
  let event: Report.Event
  /// What the duration runs to, on the monotonic clock.
  let end: Instant
  /// When it happened.
  let time: Timestamp
  /// What the kernel has counted in the turn, and for which thread.
  let usage: ResourceUsage?
  let thread: Int32
  /// Whether a line is due; what may outlive the process is kept in any case.
  var isReportDue = true
  /// The loop is no longer watched, although the stall may continue.
  var watchEnded = false
  /// The turn is none that can be judged: of its stall, nothing more is reported than that it is over.
  var isIgnored = false
  /// The actions that are due.
  var actions: [StallAction.Kind] = []
  /// Whether this process names the frames.
  var namesFrames = true
  /// When it was handed over, on the monotonic clock.
  let handedOver = MonotonicClock.now()
}

/// What a loop publishes of its turns while it runs.
struct LoopPublication: Sendable {
  let pulse: Pulse
  /// What outlives the process of its stalls; its pulse stores into it.
  var records = LoopRecords()
}

/// What a report says of the loop, and what outlives the process of its stalls.
///
/// Nothing of the service's: it may be released on a thread of the monitor's.
struct StalledLoop: Sendable {
  let name: String
  let kind: LoopKind
  /// In nanoseconds.
  let threshold: UInt64
  /// Whether the stall's end is noted as it comes, and not only by the next check.
  let hasExactEnd: Bool
  /// Whether a turn that lasts may keep the service from working.
  let isVital: Bool
  /// The thread that serves it at first.
  let threadID: Int32
  let publication: LoopPublication
  /// The module that has Foundation's run loops; nil without one.
  let runLoopModule: String?
  /// Where names show the watchdog a run that the loop's observers do not see.
  let unseenRun: UnseenRun

  var pulse: Pulse { publication.pulse }

  /// Whether the late turn has ended.
  func isOver(_ turn: TurnWord) -> Bool { pulse.word != turn || pulse.episodeEnd != nil }
}

/// The last turn in which a loop was found in a run that its observers do not see.
///
/// Set on the thread that names, read by the watchdog.
final class UnseenRun: Sendable {
  private let turn = Atomic<UInt64>(0)

  /// Notes that it was found in this turn.
  func note(_ turn: TurnWord) { self.turn.store(turn.raw, ordering: .releasing) }

  /// Whether it was found in this turn.
  func isFound(in turn: TurnWord) -> Bool { self.turn.load(ordering: .acquiring) == turn.raw }
}
