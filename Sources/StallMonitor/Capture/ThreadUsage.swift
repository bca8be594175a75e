/// What the kernel has counted for a thread and its control group up to one moment.
struct ThreadUsage {
  private let time: UInt64
  private let schedule: ThreadProbe.Schedule
  private let status: ThreadProbe.Status?
  private let throttled: UInt64
  private let pressure: PressureCounter.Totals?

  /// Reads the counters.
  ///
  /// Nil if the kernel does not keep them. About 15 us.
  init?(
    _ probe: borrowing ThreadProbe, throttle: borrowing ThrottleCounter?, pressure: borrowing PressureCounter? = nil,
    at time: UInt64
  ) {
    guard let schedule = probe.schedule() else { return nil }
    self.time = time
    self.schedule = schedule
    status = probe.status()
    throttled = throttle?.total() ?? 0
    self.pressure = pressure?.totals()
  }

  /// What was added between two moments; times in nanoseconds.
  struct Change: Equatable {
    var observed: UInt64
    var cpu: UInt64
    var runDelay: UInt64
    var throttled: UInt64
    var majorFaults: UInt64
    var minorFaults: UInt64 = 0
    /// Time in which the thread waited for a block device; 0 where the kernel does not count it.
    var blockDelay: UInt64 = 0
    var pressure: PressureCounter.Totals?
  }

  /// What was added since `earlier`.
  func change(since earlier: ThreadUsage) -> Change {
    Change(
      observed: time - earlier.time, cpu: schedule.runNanoseconds &- earlier.schedule.runNanoseconds,
      runDelay: schedule.runDelayNanoseconds &- earlier.schedule.runDelayNanoseconds,
      throttled: throttled &- earlier.throttled,
      majorFaults: (status?.majorFaults ?? 0) &- (earlier.status?.majorFaults ?? 0),
      minorFaults: (status?.minorFaults ?? 0) &- (earlier.status?.minorFaults ?? 0),
      blockDelay: (status?.blockDelay ?? 0) &- (earlier.status?.blockDelay ?? 0),
      pressure: earlier.pressure.flatMap { pressure?.since($0) })
  }
}
