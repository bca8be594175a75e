import StallCapture
import StallDetection
import StallNaming
import StallReport

extension StallUpdate {
  /// The report of the stall as it is known by now.
  func report(of origin: Report.Origin) -> Report {
    let sample = episode.heaviest
    let evidence = evidence(sample)
    let stack = sample?.stack ?? []
    let isRunning = sample?.activity == .running
    let identity = StallIdentity(stack: stack, tree: episode.tree, ran: isRunning)
    let duration = episode.duration(at: end)
    var report = Report(
      time: time, event: event, stallID: episode.id, sequence: 0, thresholdNanoseconds: loop.threshold,
      durationNanoseconds: duration,
      verdict: Verdict(cause: episode.cause(lasting: duration, sample, usage: evidence.usage), evidence: evidence),
      culprit: identity.culprit, fingerprint: identity.fingerprint,
      samples: episode.sampleCount,
      loop: Report.LoopState(
        name: loop.name, kind: loop.kind, mode: sample?.mode, phase: episode.turn.phase.reported,
        callout: sample?.callout),
      threadID: sample?.thread, threadName: sample?.threadName, origin: origin,
      stack: stack,
      captureMethod: sample?.method, isApproximate: sample?.isApproximate ?? false,
      isTruncated: sample?.isTruncated ?? false, isChildTask: sample?.isChildTask ?? false,
      captureFailure: sample?.failure, threads: sample?.threads ?? [], threadsOmitted: sample?.threadsLeftOut ?? 0)
    report.task = sample?.task
    report.isAtLeast = !loop.hasExactEnd
    if sample?.failure != .notSampled {
      if event == .ended { report.path = identity.path }
      // The samples are for the program that adds names: missing ones may change what the stall is known by.
      let wantsFingerprint = isRunning && !(namesFrames && identity.isFingerprintCertain)
      let wantsPath = event == .ended && !(namesFrames && identity.isPathCertain)
      if wantsFingerprint || wantsPath { report.places = episode.unnamedSamples }
    }
    report.isNamed = namesFrames
    report.repeatKey = Culprit.repeatKey(of: stack)
    return report
  }

  /// The evidence for the cause.
  private func evidence(_ sample: Episode.Sample?) -> Verdict.Evidence {
    var evidence = Verdict.Evidence()
    evidence.watchEnded = watchEnded
    evidence.state = sample?.activity.reported
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
    if sample == nil || sample?.thread == thread { evidence.usage = usage }
    return evidence
  }
}
