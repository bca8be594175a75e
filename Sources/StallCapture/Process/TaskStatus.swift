/// What `/proc/PID/stat` says of a process, and `/proc/PID/task/TID/stat` of a thread (proc(5)).
package struct TaskStatus: Equatable {
  /// The state's letter (field 3).
  package var state: UInt8
  /// The page faults that needed no disk, and those that did (10, 12).
  package var minorFaults: UInt64 = 0
  package var majorFaults: UInt64 = 0
  /// When it started (22), in ticks since the machine started.
  package var startTicks: UInt64 = 0
  /// Where the main thread's stack starts (28).
  package var startOfStack: UInt64 = 0
  /// The time that it waited for block devices (42), in nanoseconds; 0 unless the kernel counts it
  /// (`kernel.task_delayacct`).
  package var blockDelay: UInt64 = 0

  /// Whether a tracer or a signal has stopped it.
  package var isStopped: Bool { state == UInt8(ascii: "t") || state == UInt8(ascii: "T") }

  /// Parses the file's line; nil if it ends before field 28.
  package init?(_ line: UnsafeRawBufferPointer) {
    var scanner = FieldScanner(line)
    // The second field, a name, may have blanks and parentheses.
    guard scanner.skip(pastLast: UInt8(ascii: ")")), let state = scanner.field()?.first else { return nil }
    self.state = state
    for field in 4...42 {
      guard let value = scanner.number() else {
        if field > 28 { return }
        return nil
      }
      let count = UInt64(bitPattern: value)
      switch field {
      case 10: minorFaults = count
      case 12: majorFaults = count
      case 22: startTicks = count
      case 28: startOfStack = count
      // In ticks of a hundredth of a second, whatever the kernel's own (USER_HZ).
      case 42: blockDelay = count &* 10_000_000
      default: break
      }
    }
  }
}
