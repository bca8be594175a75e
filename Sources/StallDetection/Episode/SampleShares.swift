import StallReport

/// What of the time between two samples, before the first one, or after the last one, each of them represents; times in nanoseconds.
struct SampleShares {
  let earlier: UInt64
  let later: UInt64
  /// Time that neither represents.
  let unseen: [Unseen]

  /// Time in which no sample was taken, and its cause.
  typealias Unseen = (cause: Cause, time: UInt64)

  /// The kernel counts a running thread's time at its clock's ticks.
  private static let tick: UInt64 = 10_000_000

  /// Shares the time before a sample.
  ///
  /// - Parameters:
  ///   - interval: The time to share.
  ///   - isFirst: Whether there is no earlier sample.
  ///   - wasReady: Whether the thread was ready to run at the earlier sample, and did not wait; nil if that is not known.
  ///   - isReady: The same at the later one.
  ///   - change: What the kernel counted in the interval; nil if that is not known.
  ///   - beginning: What is known of the time before it was counted; nil if that is nothing.
  init(
    of interval: UInt64, isFirst: Bool, wasReady: Bool?, isReady: Bool?, _ change: ResourceUsage?,
    beginning: TurnBeginning? = nil
  ) {
    func half(_ time: UInt64) -> UInt64 { isFirst ? 0 : time / 2 }
    guard let change, let isReady, isFirst || wasReady != nil, change.observed <= interval + interval / 16 + Self.tick
    else {
      (earlier, later, unseen) = (half(interval), interval - half(interval), [])
      return
    }
    // A wait for a processor that had begun before the counting began, but in the turn, is counted as well.
    let countable = isFirst && beginning?.endsQueued == true ? interval : min(change.observed, interval)
    var ready = min(change.readyTime, countable)
    var waiting = min(change.observed, interval) - min(ready, change.observed)
    if let wasReady, wasReady != isReady {
      // What was not observed is shared as without counters.
      later = (isReady ? ready : waiting) + (interval - ready - waiting) / 2
      (earlier, unseen) = (interval - later, [])
      return
    }
    // Without a wait, the rest is what a hypervisor has taken, or what the kernel has not counted yet.
    if isReady, change.waits == 0 { (ready, waiting) = (ready + waiting, 0) }
    var unknown: UInt64 = 0
    if let beginning {
      unknown = interval - ready - waiting
      let known = (ready: min(beginning.ready, unknown), waiting: min(beginning.waiting, unknown))
      (ready, waiting, unknown) = (
        ready + known.ready, waiting + known.waiting, unknown - min(known.ready + known.waiting, unknown)
      )
    }
    let other: [Unseen] =
      isReady
      ? [(.unknown, waiting + unknown)] : [(CauseRule.readyCause(change) ?? .running, ready), (.unknown, unknown)]
    unseen = Self.exact(other, of: interval)
    let seen = interval - Self.time(of: unseen)
    (earlier, later) = (half(seen), seen - half(seen))
  }

  /// Shares the time from the last sample to the end of the stall.
  ///
  /// - Parameters:
  ///   - rest: The time to share.
  ///   - wasReady: Whether the thread was ready to run at the sample, and did not wait; nil if that is not known.
  ///   - change: What the kernel has counted since the sample, and for some time after the end; nil if that is not known.
  ///   - stolen: What a hypervisor has taken since: the thread was ready then, and was not counted as such.
  init(after rest: UInt64, wasReady: Bool?, _ change: ResourceUsage?, stolen: UInt64) {
    later = 0
    guard let change, let wasReady, change.observed + Self.tick >= rest else {
      (earlier, unseen) = (rest, [])
      return
    }
    let after = change.observed > rest ? change.observed - rest : 0
    let readyTime = min(change.readyTime, change.observed)
    let other: Unseen =
      wasReady
      ? (.unknown, change.waits > 0 && rest > readyTime + stolen ? rest - readyTime - stolen : 0)
      : (CauseRule.readyCause(change) ?? .running, min(rest, readyTime > after ? readyTime - after : 0))
    unseen = Self.exact([other], of: rest)
    earlier = rest - Self.time(of: unseen)
  }

  /// The whole time of some parts.
  static func time(of parts: [Unseen]) -> UInt64 { parts.reduce(0) { $0 + $1.time } }

  /// What is too much for the inexactness of counters; nothing if all of it is not.
  private static func exact(_ parts: [Unseen], of interval: UInt64) -> [Unseen] {
    time(of: parts) > interval / 8 + tick ? parts.filter { $0.time > 0 } : []
  }
}
