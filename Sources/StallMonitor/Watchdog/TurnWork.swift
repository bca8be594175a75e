import StallDetection
import StallReport

/// What runs in the turns of a loop whose turns are jobs that others have scheduled.
///
/// All members on the watchdog's thread, about the turn that was published last. They take no lock.
protocol TurnWork: Sendable {
  /// How long the turn may take, in nanoseconds, if that is longer than the threshold.
  var leastThreshold: UInt64 { get }

  /// Notes the turn that was found at a check, before ``part``; `isShort` says that it has just begun.
  func meet(_ turn: TurnWord, isShort: Bool)

  /// Notes that the loop is in no turn.
  func rest()

  /// What runs now of the turn that was met last.
  var part: TurnPart { get }

  /// Whether a turn may consist of pieces: then one that is late may have begun long after the turn.
  var hasPieces: Bool { get }

  /// Whether the turn's end is known when it comes, and not only when it is noticed.
  var hasExactEnd: Bool { get }

  /// Whether other work waits for a thread now.
  var hasWaitingWork: Bool { get }

  /// The task that runs now, as far as it is known; nil if none does.
  var task: Report.TaskState? { get }

  /// Whether the thread's stack shows such work; nil if the stack could not be taken.
  ///
  /// Where it does not, the turn is ignored.
  func isUnderWay(in stack: Backtrace?) -> Bool

  /// Sets whether the thread may be watched by perf events, which it may at first.
  func permit(perfEvents: Bool)

  /// Closes what the watchdog has opened for it; called when the watchdog forgets the loop.
  func finish()
}

extension TurnWork {
  var hasPieces: Bool { false }
  var hasExactEnd: Bool { true }
  func meet(_ turn: TurnWord, isShort: Bool) {}
  func rest() {}
  func isUnderWay(in stack: Backtrace?) -> Bool { true }
  func permit(perfEvents: Bool) {}
  func finish() {}
}
