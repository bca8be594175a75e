import StallReport

extension Episode {
  /// For how long a stall may be the machine's fault, in nanoseconds.
  private static let longestExcuse: UInt64 = 600_000_000_000

  /// Whether the service is healthy in spite of this stall: the machine keeps the turn from ending, and has done so for ten minutes at most.
  ///
  /// `usage` is what the kernel has counted in the turn for `thread`, which is that of the heaviest sample or not.
  package func isExcused(at now: Instant, _ usage: ResourceUsage?, of thread: Int32) -> Bool {
    guard now < start + Self.longestExcuse else { return false }
    let sample = heaviest
    let usage = sample == nil || sample?.thread == thread ? usage : nil
    return evidence(lasting: duration(at: now), sample, usage: usage).isOfTheMachine
  }

  /// The cause, by what is known of the whole stall; `sample` represents it.
  package func cause(lasting duration: UInt64, _ sample: Sample?, usage: ResourceUsage?) -> Cause {
    evidence(lasting: duration, sample, usage: usage).cause
  }

  private func evidence(lasting duration: UInt64, _ sample: Sample?, usage: ResourceUsage?) -> StallEvidence {
    StallEvidence(
      activity: sample?.activity ?? .unknown, failure: sample?.failure, usage: usage, duration: duration,
      shares: causeWeights)
  }
}
