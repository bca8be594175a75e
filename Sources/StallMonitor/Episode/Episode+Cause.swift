import StallCapture
import StallReport

extension Episode {
  /// Whether the machine keeps the turn from ending, and not the service.
  ///
  /// A service whose own group uses up its quota, or whose tasks take all threads of a pool, does that itself.
  /// `usage` is what the kernel has counted in the turn for a thread, which is that of the heaviest sample or not.
  func isOfTheMachine(at time: UInt64, _ usage: ResourceUsage?, of thread: Int32) -> Bool {
    let sample = heaviest
    let usage = sample == nil || sample?.thread == thread ? usage : nil
    return switch cause(lasting: duration(at: time), sample, usage: usage) {
    case .starved: sample?.failure != .noServer
    case .throttled: usage.map { $0.throttledByOwnQuota < $0.throttled / 2 } ?? false
    case .stopped: true
    case .running, .lock, .io, .sleep, .fault, .unknown: false
    }
  }

  /// The cause, by what is known of the whole stall.
  func cause(lasting duration: UInt64, _ sample: Episode.Sample?, usage: ResourceUsage?) -> Cause {
    var cause = cause
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
}
