import StallReport

/// What the kernel has counted for a thread and its control group up to one moment.
package struct ThreadUsage {
  private let time: UInt64
  private let processorTime: UInt64
  /// How long it waited for a processor; nil where the kernel does not count that.
  private let runDelay: UInt64?
  private let status: TaskStatus?
  private let waits: UInt64?
  private let throttled: UInt64
  private let throttledByOwnQuota: UInt64
  private let pressure: PressureTotals?

  /// Reads the counters.
  ///
  /// Nil if the thread has none. About 25 us.
  package init?(
    _ probe: borrowing ThreadProbe, throttle: borrowing ThrottleCounter?, pressure: borrowing PressureCounter? = nil,
    at time: UInt64
  ) {
    let schedule = probe.schedule()
    guard let processorTime = schedule?.runNanoseconds ?? probe.processorTime() else { return nil }
    self.time = time
    self.processorTime = processorTime
    runDelay = schedule?.runDelayNanoseconds
    status = probe.status()
    waits = probe.voluntarySwitches()
    throttled = throttle?.total() ?? 0
    throttledByOwnQuota = throttle?.ownTotal() ?? 0
    self.pressure = pressure?.totals()
  }

  /// Whether the thread was on a processor, or waited for one.
  package var isReady: Bool { status?.state == UInt8(ascii: "R") }

  /// Whether the thread has begun no wait since `earlier`, as far as that is known.
  package func hasBegunNoWait(since earlier: ThreadUsage) -> Bool { waits != nil && waits == earlier.waits }

  /// What was added since `earlier`.
  package func change(since earlier: ThreadUsage) -> ResourceUsage {
    // A wait is counted when it begins.
    let wasWaiting = earlier.status.map { $0.state != UInt8(ascii: "R") } ?? false
    var change = ResourceUsage(
      observed: time > earlier.time ? time - earlier.time : 0, cpu: processorTime &- earlier.processorTime,
      runDelay: (runDelay ?? 0) &- (earlier.runDelay ?? 0), countsRunDelay: runDelay != nil,
      throttled: throttled &- earlier.throttled,
      majorFaults: (status?.majorFaults ?? 0) &- (earlier.status?.majorFaults ?? 0),
      minorFaults: (status?.minorFaults ?? 0) &- (earlier.status?.minorFaults ?? 0),
      blockDelay: (status?.blockDelay ?? 0) &- (earlier.status?.blockDelay ?? 0),
      pressure: earlier.pressure.flatMap { pressure?.since($0) },
      waits: earlier.waits.flatMap { before in waits.map { $0 &- before &+ (wasWaiting ? 1 : 0) } } ?? 0)
    change.throttledByOwnQuota = throttledByOwnQuota &- earlier.throttledByOwnQuota
    return change
  }
}
