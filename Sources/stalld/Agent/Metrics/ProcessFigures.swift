import Glibc

/// What the kernel says of this process, and when another one started.
enum ProcessFigures {
  /// When the process started, in seconds since 1970.
  static let startTime: Double = startTime(of: getpid()) ?? now

  /// When a process started, in seconds since 1970, to a tick; nil if the kernel does not say.
  ///
  /// If it has ended, it may be that of a later one by the same number.
  static func startTime(of pid: Int32) -> Double? {
    // The 22nd field, in ticks since the machine started; the second one may have blanks, and ends with the last ")".
    let text = contents(of: "/proc/\(pid)/stat")
    let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
    guard fields.count > 19, let ticks = Double(fields[19]) else { return nil }
    return now(CLOCK_REALTIME) - now(CLOCK_BOOTTIME) + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  /// The wall clock's time, in seconds since 1970.
  static var now: Double { now(CLOCK_REALTIME) }

  static var residentBytes: Int {
    let fields = contents(of: "/proc/self/statm").split(separator: " ")
    return fields.count > 1 ? (Int(fields[1]) ?? 0) * Int(sysconf(Int32(_SC_PAGESIZE))) : 0
  }

  /// Time on processors, in seconds.
  static var processorTime: Double { now(CLOCK_PROCESS_CPUTIME_ID) }

  private static func now(_ clock: clockid_t) -> Double {
    var time = timespec()
    clock_gettime(clock, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  private static func contents(of path: String) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = read(descriptor, &buffer, buffer.count)
    return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
  }
}
