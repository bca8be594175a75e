/// What the kernel counted for a thread and its control group between two moments; times in nanoseconds.
package struct ResourceUsage: Sendable, Equatable {
  package var observed: UInt64
  package var cpu: UInt64
  package var runDelay: UInt64
  /// Whether the kernel counts the run delay; 0 otherwise.
  package var countsRunDelay: Bool
  /// How much of the run delay its group's quota can explain.
  package var throttled: UInt64
  /// How long its group's own quota was used up, over all processors: not that of a group above it.
  package var throttledByOwnQuota: UInt64 = 0
  package var majorFaults: UInt64
  package var minorFaults: UInt64
  /// Time in which the thread waited for a block device; 0 where the kernel does not count it.
  package var blockDelay: UInt64
  package var pressure: PressureTotals?
  /// How often the thread has waited, or was stopped; 0 where that is not known.
  package var waits: UInt64

  /// `throttled` is that of the thread's control group.
  package init(
    observed: UInt64, cpu: UInt64, runDelay: UInt64, countsRunDelay: Bool = true, throttled: UInt64,
    majorFaults: UInt64, minorFaults: UInt64, blockDelay: UInt64, pressure: PressureTotals?, waits: UInt64 = 0
  ) {
    self.observed = observed
    self.cpu = cpu
    self.runDelay = runDelay
    self.countsRunDelay = countsRunDelay
    // The group's is the sum over processors, also while this thread waits for something else.
    self.throttled = min(throttled, runDelay)
    self.majorFaults = majorFaults
    self.minorFaults = minorFaults
    self.blockDelay = blockDelay
    self.pressure = pressure
    self.waits = waits
  }

  /// What was added since `earlier`, without pressure; nil if they were not counted from the same moment.
  package func since(_ earlier: ResourceUsage) -> ResourceUsage? {
    guard observed >= earlier.observed, cpu >= earlier.cpu, runDelay >= earlier.runDelay else { return nil }
    return ResourceUsage(
      observed: observed - earlier.observed, cpu: cpu - earlier.cpu, runDelay: runDelay - earlier.runDelay,
      countsRunDelay: countsRunDelay, throttled: throttled &- earlier.throttled,
      majorFaults: majorFaults &- earlier.majorFaults,
      minorFaults: minorFaults &- earlier.minorFaults, blockDelay: blockDelay &- earlier.blockDelay, pressure: nil,
      waits: waits &- earlier.waits)
  }

  /// Time in which the thread was ready to run: on a processor, or waiting for one.
  package var readyTime: UInt64 { cpu + runDelay }
}

/// The time in which at least one task of the machine waited for a processor, for storage or for memory.
///
/// Times in nanoseconds; nil where the kernel does not count them.
package struct PressureTotals: Sendable, Equatable {
  package var processor: UInt64?
  package var storage: UInt64?
  package var memory: UInt64?

  package init(processor: UInt64?, storage: UInt64?, memory: UInt64?) {
    self.processor = processor
    self.storage = storage
    self.memory = memory
  }

  /// What was added since `earlier`.
  package func since(_ earlier: PressureTotals) -> PressureTotals {
    func difference(_ now: UInt64?, _ before: UInt64?) -> UInt64? {
      guard let now, let before, now >= before else { return nil }
      return now - before
    }
    return PressureTotals(
      processor: difference(processor, earlier.processor), storage: difference(storage, earlier.storage),
      memory: difference(memory, earlier.memory))
  }
}
