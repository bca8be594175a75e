/// What the kernel has counted for a thread and its control group up to one moment.
struct ThreadUsage {
  private let time: UInt64
  private let schedule: ThreadProbe.Schedule
  private let majorFaults: UInt64
  private let throttled: UInt64

  /// Reads the counters.
  ///
  /// Nil if the kernel does not keep them. About 10 us.
  init?(_ probe: borrowing ThreadProbe, throttle: borrowing ThrottleCounter?, at time: UInt64) {
    guard let schedule = probe.schedule() else { return nil }
    self.time = time
    self.schedule = schedule
    majorFaults = probe.status()?.majorFaults ?? 0
    throttled = throttle?.total() ?? 0
  }

  /// What was added between two moments; times in nanoseconds.
  struct Change: Equatable {
    var observed: UInt64
    var cpu: UInt64
    var runDelay: UInt64
    var throttled: UInt64
    var majorFaults: UInt64
  }

  /// What was added since `earlier`.
  func change(since earlier: ThreadUsage) -> Change {
    Change(
      observed: time - earlier.time, cpu: schedule.runNanoseconds &- earlier.schedule.runNanoseconds,
      runDelay: schedule.runDelayNanoseconds &- earlier.schedule.runDelayNanoseconds,
      // A process that changes its group begins anew.
      throttled: throttled > earlier.throttled ? throttled - earlier.throttled : 0,
      majorFaults: majorFaults &- earlier.majorFaults)
  }
}
