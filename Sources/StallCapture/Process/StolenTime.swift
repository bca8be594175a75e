import PlatformLibc

/// The processor time that a hypervisor has taken from this machine.
package enum StolenTime {
  /// The total of all processors since the machine started, in nanoseconds; nil where the kernel does not count it.
  ///
  /// `steal` in the first line of `/proc/stat`, in ticks of 10 ms (proc(5)). Up to a millisecond on a machine with
  /// hundreds of processors.
  package static func total() -> UInt64? {
    ProcFile("/proc/stat")?.parse(capacity: 256) { line in
      var scanner = FieldScanner(line)
      guard scanner.field()?.elementsEqual("cpu".utf8) == true else { return nil }
      // user, nice, system, idle, iowait, irq, softirq
      for _ in 0..<7 where scanner.number() == nil { return nil }
      return scanner.number().map { UInt64(bitPattern: $0) * tick }
    }
  }

  private static let tick = 1_000_000_000 / UInt64(max(sysconf(Int32(_SC_CLK_TCK)), 1))
}
