extension Verdict {
  /// The observations of the stalled thread.
  package struct Evidence: Sendable, Equatable {
    /// `running` or `blocked`, at the last sample.
    package var state: String?
    /// The call that it was waiting in, in words: `read(fd 7 → pipe:[1234])`.
    package var wait: String?
    /// What it was waiting for, if `lockHolder` is nil.
    package var waitedFor = WaitedFor.thread
    /// The kernel's counters since the watchdog first checked the turn.
    package var usage: ResourceUsage?
    /// Time in which the whole process was stopped, frozen or suspended; not part of the duration.
    package var frozenNanoseconds: UInt64 = 0
    /// CPU time that a hypervisor took from all of the machine's CPUs since the turn was found late.
    package var stolen: UInt64 = 0
    /// How long the report was delayed because the process had no memory left when the turn was late.
    package var memoryShortage: UInt64 = 0
    /// The thread that the stalled thread waits for.
    package var lockHolder: LockHolder?
    /// The lock that ends `wait`, in a summary, whose stalls may have had different lock holders.
    package var lock: String?
    /// Threads that wait for each other: each for the next, and the last for the first.
    package var deadlock: [Int32] = []
    /// The callouts of the turn, if the loop counts them.
    package var callouts: CalloutTimes?
    /// No function is in more than half of the samples.
    package var samplesDisagree = false
    /// Other tasks were waiting for a thread during the stall.
    package var starves = false
    /// The watch of the loop ended during the stall (the watch or the monitor was stopped, or the agent disabled it): the
    /// stall was longer.
    package var watchEnded = false

    package init(state: String? = nil, wait: String? = nil) {
      self.state = state
      self.wait = wait
    }

    package func write(into line: inout JSONWriter) {
      line.member("state", state)
      line.member("wait", wait?.limited(to: 300))
      if let usage {
        line.member("observed_ms", milliseconds: usage.observed)
        line.member("cpu_ms", milliseconds: usage.cpu)
        if usage.countsRunDelay { line.member("run_delay_ms", milliseconds: usage.runDelay) }
        if usage.throttled > 0 { line.member("throttled_ms", milliseconds: usage.throttled) }
        if usage.majorFaults > 0 { line.member("major_faults", usage.majorFaults) }
        if usage.minorFaults > 0 { line.member("minor_faults", usage.minorFaults) }
        if usage.blockDelay > 0 { line.member("block_io_delay_ms", milliseconds: usage.blockDelay) }
        if let pressure = usage.pressure {
          line.object("pressure") {
            $0.member("cpu_ms", milliseconds: pressure.processor)
            $0.member("io_ms", milliseconds: pressure.storage)
            $0.member("memory_ms", milliseconds: pressure.memory)
          }
        }
      }
      if frozenNanoseconds > 0 { line.member("frozen_ms", milliseconds: frozenNanoseconds) }
      if stolen > 0 { line.member("stolen_ms", milliseconds: stolen) }
      if memoryShortage > 0 { line.member("memory_shortage_ms", milliseconds: memoryShortage) }
      line.member("lock_holder", lockHolder?.thread)
      line.member("lock_kind", lockHolder?.kind.rawValue)
      line.member("lock_label", lockHolder?.label?.limited(to: 100))
      line.member("lock", lock)
      line.member("waits_for", waitedFor == .thread ? nil : waitedFor.rawValue)
      if !deadlock.isEmpty { line.array("deadlock", deadlock) }
      if let callouts, callouts.count > 1 {
        line.member("callouts", callouts.count)
        line.member("longest_callout_ms", milliseconds: callouts.longestOfAll)
      }
      line.member("samples_disagree", ifTrue: samplesDisagree)
      line.member("starves", ifTrue: starves)
      line.member("watch_ended", ifTrue: watchEnded)
    }
  }
}
