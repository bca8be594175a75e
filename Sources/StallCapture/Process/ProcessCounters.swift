/// What the kernel counts for a whole process and its machine, in files that all watched loops share.
///
/// Belongs to the thread that made it: the watchdog's files lie in a descriptor table of its own.
package final class ProcessCounters {
  let throttle: ThrottleCounter?
  let pressure: PressureCounter? = PressureCounter()

  package init(of process: ProcessHandle) { throttle = ThrottleCounter(of: process) }

  /// What has been counted for a thread up to `time`; nil if the kernel does not count it.
  package func usage(of probe: borrowing ThreadProbe, at time: UInt64) -> ThreadUsage? {
    ThreadUsage(probe, throttle: throttle, pressure: pressure, at: time)
  }

  /// The same without what is counted for its group and for the machine.
  package func usageOfThread(_ probe: borrowing ThreadProbe, at time: UInt64) -> ThreadUsage? {
    ThreadUsage(probe, throttle: nil, pressure: nil, at: time)
  }
}
