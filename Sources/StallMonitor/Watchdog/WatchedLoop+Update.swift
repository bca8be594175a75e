import StallCapture
import StallReport

extension WatchedLoop {
  /// What is known of the stall by now; nil if the loop has none.
  ///
  /// - Parameters:
  ///   - event: What has happened to it.
  ///   - end: The time that its duration runs to.
  ///   - time: When it happened.
  /// - Returns: What to hand over.
  func update(_ event: Report.Event, end: UInt64, time: Timestamp = .now()) -> StallUpdate? {
    guard let episode else { return nil }
    return update(event, of: episode, end: end, time: time, usage: thread.change(at: MonotonicClock.now()))
  }

  /// The end of a stall that was not sampled.
  func update(unseen stall: Episode) -> StallUpdate {
    update(.ended, of: stall, end: stall.lastSampleTime, time: .now(), usage: nil)
  }

  private func update(
    _ event: Report.Event, of episode: Episode, end: UInt64, time: Timestamp, usage: ResourceUsage?
  ) -> StallUpdate {
    var update = StallUpdate(
      loop: stalledLoop, episode: episode, event: event, end: end, time: time, usage: usage, thread: thread.id)
    update.namesFrames = settings.namesFrames
    return update
  }

  private var stalledLoop: StalledLoop {
    StalledLoop(
      name: subject.label.name, kind: subject.label.kind(), threshold: threshold, hasExactEnd: hasExactEnd,
      isVital: subject.isVital, threadID: subject.thread.id, publication: subject.publication,
      runLoopModule: stall.runLoopModule, unseenRun: unseenRun)
  }

  /// The report that the whole process was kept from running.
  ///
  /// It names no responsible function: the stack at such a moment says where the loop was met, and not why.
  func freezeReport(lasting frozen: UInt64, id: String, origin: Report.Origin) -> Report {
    var evidence = Verdict.Evidence()
    evidence.frozenNanoseconds = frozen
    return Report(
      time: .now(), event: .ended, stallID: id, sequence: 0, thresholdNanoseconds: threshold,
      durationNanoseconds: frozen, verdict: Verdict(cause: .stopped, evidence: evidence), samples: 0,
      loop: Report.LoopState(
        name: subject.label.name, kind: subject.label.kind(), mode: nil, phase: subject.pulse.word.phase.reported,
        callout: nil),
      threadID: subject.thread.id, threadName: ProcessHandle.own.name(of: subject.thread.id), origin: origin, stack: [])
  }
}
