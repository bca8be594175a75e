import StallReport

/// What of the time between two samples, or before the first one, each of them represents; times in nanoseconds.
struct SampleShares {
  let earlier: UInt64
  let later: UInt64
  /// Time of a kind that neither has shown, and its cause.
  let unseen: (cause: Cause, time: UInt64)?

  /// The kernel counts a running thread's time at its clock's ticks.
  private static let tick: UInt64 = 10_000_000

  /// Shares an interval.
  ///
  /// - Parameters:
  ///   - interval: The time to share.
  ///   - isFirst: Whether there is no earlier sample.
  ///   - wasReady: Whether the thread was ready to run at the earlier sample, and did not wait; nil if that is not known.
  ///   - isReady: The same at the later one.
  ///   - change: What the kernel counted in the interval; nil if that is not known.
  init(of interval: UInt64, isFirst: Bool, wasReady: Bool?, isReady: Bool?, _ change: ResourceUsage?) {
    func half(_ time: UInt64) -> UInt64 { isFirst ? 0 : time / 2 }
    guard let change, let isReady, isFirst || wasReady != nil, change.observed <= interval + interval / 16 + Self.tick
    else {
      (earlier, later, unseen) = (half(interval), interval - half(interval), nil)
      return
    }
    let ready = min(change.readyTime + change.throttled, change.observed, interval)
    let waiting = min(change.observed, interval) - ready
    if let wasReady, wasReady != isReady {
      // What was not observed is shared as without counters.
      later = (isReady ? ready : waiting) + (interval - ready - waiting) / 2
      (earlier, unseen) = (interval - later, nil)
      return
    }
    // Without a wait, the rest is what a hypervisor has taken, or what the kernel has not counted yet.
    let other = isReady ? (change.waits > 0 ? waiting : 0) : ready
    let isExact = other > interval / 8 + Self.tick
    let seen = isExact ? interval - other : interval
    (earlier, later) = (half(seen), seen - half(seen))
    unseen = isExact ? (isReady ? .unknown : Verdict.ready(change) ?? .running, other) : nil
  }
}
