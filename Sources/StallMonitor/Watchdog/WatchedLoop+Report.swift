import StallCapture
import StallReport

extension WatchedLoop {
  /// The report of the episode as it is known by now.
  ///
  /// - Parameters:
  ///   - event: The event of the report.
  ///   - end: The time that its duration runs to.
  ///   - origin: The process.
  ///   - watchEnded: The loop is no longer watched, although the stall may continue.
  /// - Returns: The report; nil if the loop has no stall in progress.
  func report(
    _ event: Report.Event, end: UInt64, origin: Report.Origin, watchEnded: Bool = false
  ) -> Report? {
    guard let episode else { return nil }
    let sample = episode.heaviest
    var evidence = evidence(of: episode, sample)
    evidence.watchEnded = watchEnded
    let stack = sample?.stack ?? []
    let isRunning = if case .running = sample?.activity { true } else { false }
    var report = Report(
      time: .now(), event: event, stallID: episode.id, sequence: 0, thresholdNanoseconds: threshold,
      durationNanoseconds: episode.duration(at: end),
      verdict: Verdict(
        cause: cause(of: episode, lasting: episode.duration(at: end), sample, usage: evidence.usage), evidence: evidence
      ),
      culprit: Culprit.frame(of: stack),
      fingerprint: Culprit.fingerprint(of: stack, common: isRunning ? episode.tree.commonFrame : nil),
      samples: episode.sampleCount,
      loop: Report.LoopState(
        name: subject.label.name, kind: subject.label.kind(), mode: sample?.mode, phase: episode.turn.phase.reported,
        callout: sample?.callout),
      threadID: sample?.thread, threadName: sample?.thread.flatMap { OwnProcess().name(of: $0) }, origin: origin,
      stack: stack,
      captureMethod: sample?.method, isApproximate: sample?.isApproximate ?? false,
      isTruncated: sample?.isTruncated ?? false, isChildTask: sample?.isChildTask ?? false,
      captureFailure: sample?.failure, threads: sample?.threads ?? [], threadsOmitted: sample?.threadsLeftOut ?? 0)
    report.task = sample?.task
    report.isAtLeast = !hasExactEnd
    if sample?.failure != .notSampled {
      if event == .ended { report.path = episode.tree.heaviestPath }
      report.places = episode.placesToName(of: event, isRunning: isRunning, isNamed: settings.namesFrames)
    }
    report.isNamed = settings.namesFrames
    report.repeatKey = Culprit.repeatKey(of: stack)
    report.detailFile = stall.progress.detailFile
    return report
  }

  /// The evidence for the cause.
  private func evidence(of episode: Episode, _ sample: Episode.Sample?) -> Verdict.Evidence {
    var evidence = Verdict.Evidence()
    if let activity = sample?.activity {
      switch activity {
      case .running: evidence.state = "running"
      case .blocked: evidence.state = "blocked"
      case .unknown: break
      }
    }
    if sample?.cause == episode.cause {
      evidence.wait = sample?.wait
      evidence.waitedFor = sample?.waitedFor ?? .thread
      evidence.lockHolder = sample?.lockHolder
      evidence.deadlock = sample?.deadlock ?? []
    }
    evidence.frozenNanoseconds = episode.frozen
    evidence.memoryShortage = episode.memoryShortage
    evidence.stolen = episode.stolen
    evidence.callouts = episode.callouts
    evidence.starves = episode.starves
    evidence.samplesDisagree = sample?.failure == .noCommonFunction
    // Of the thread whose stack is shown, or of none.
    if sample == nil || sample?.thread == thread.id { evidence.usage = thread.change(at: MonotonicClock.now()) }
    return evidence
  }

  /// The cause, by what is known of the whole stall.
  private func cause(
    of episode: Episode, lasting duration: UInt64, _ sample: Episode.Sample?, usage: ResourceUsage?
  ) -> Cause {
    var cause = episode.cause
    // A fault is counted as read from disk when it is over: what was not known at the sample is known now.
    if cause == .unknown, case .blocked(let call) = sample?.activity, call.number < 0 {
      cause = Verdict.cause(of: .blocked(call), usage: usage)
    }
    // A sample knows the time up to it alone; what was counted of most of the stall says more.
    if cause.isReady, sample?.failure != .noProcessor, let usage, usage.observed >= duration / 2,
      let judged = Verdict.ready(usage)
    {
      cause = judged
    }
    if sample?.failure == .shortCallouts || sample?.failure == .noCommonFunction {
      // Many short pieces of work: late as a whole for want of a processor, or nothing that can be named.
      let isMostOfIt = usage.map { $0.runDelay > $0.observed / 2 } ?? false
      cause = Verdict.ready(usage).flatMap { isMostOfIt && $0.isKeptFromRunning ? $0 : nil } ?? .unknown
    }
    return cause
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
      threadID: subject.thread.id, threadName: OwnProcess().name(of: subject.thread.id), origin: origin, stack: [])
  }
}
