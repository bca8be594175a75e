import Glibc
import StallCapture

/// What the kernel says of this process, and when another one started.
enum ProcessFigures {
  /// When the process started, in seconds since 1970.
  static let startTime: Double = startTime(of: getpid()) ?? now

  /// When a process started, in seconds since 1970, to a tick; nil if the kernel does not say.
  ///
  /// If it has ended, it may be that of a later one by the same number.
  static func startTime(of pid: Int32) -> Double? {
    guard let status = ProcFile("/proc/\(pid)/stat")?.parse({ TaskStatus($0) }) else { return nil }
    return now(CLOCK_REALTIME) - now(CLOCK_BOOTTIME) + Double(status.startTicks) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// Whether a process's main thread runs, or waits for a processor, and for nothing else.
  static func isRunnable(_ pid: Int32) -> Bool {
    ProcFile("/proc/\(pid)/stat")?.parse { TaskStatus($0) }?.state == UInt8(ascii: "R")
  }

  /// The wall clock's time, in seconds since 1970.
  static var now: Double { now(CLOCK_REALTIME) }

  static var residentBytes: Int { residentBytes(of: getpid()) }

  /// The memory of a process, in bytes; 0 if the kernel does not say.
  static func residentBytes(of pid: Int32) -> Int {
    let pages = ProcFile("/proc/\(pid)/statm")?.parse { line -> Int64? in
      var scanner = FieldScanner(line)
      return scanner.number() == nil ? nil : scanner.number()
    }
    return Int(pages ?? 0) * sysconf(Int32(_SC_PAGESIZE))
  }

  /// Time on processors, in seconds.
  static var processorTime: Double { now(CLOCK_PROCESS_CPUTIME_ID) }

  private static func now(_ clock: clockid_t) -> Double {
    var time = timespec()
    clock_gettime(clock, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
