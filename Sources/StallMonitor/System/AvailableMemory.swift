import CLinux
import PlatformLibc
import StallCapture

/// Whether there is memory for what the library's threads are about to do.
///
/// A service in C may survive that malloc(3) fails; Swift ends the process. So the threads ask before they allocate, and otherwise wait. What
/// another thread takes between the question and the use is not seen.
enum AvailableMemory {
  /// What is asked of malloc(3), and of the kernel beside, in bytes: more than a report with its names takes.
  private static let small = 64 << 10
  private static let large = 4 << 20

  /// How long a thread waits before it asks again, in nanoseconds.
  static let retryInterval: UInt64 = 20_000_000

  /// Whether the kernel refuses memory, instead of granting all that is asked for (`vm.overcommit_memory` = 2, proc_sys_vm(5)).
  private static let isAccounted = ProcFile("/proc/sys/vm/overcommit_memory")?.parse { $0.first } == UInt8(ascii: "2")

  /// Whether the process's address space is limited.
  private static var isLimited: Bool {
    [RLIMIT_AS, RLIMIT_DATA].contains { kind in
      var limit = rlimit()
      return getrlimit(__rlimit_resource_t(kind.rawValue), &limit) == 0 && limit.rlim_cur != .max
    }
  }

  /// Whether there is space to check loops; less than a microsecond.
  static var isEnoughForACheck: Bool { clinux_has_room(small, 0) }

  /// Whether there is space for a report at this moment; a few microseconds.
  static var isEnough: Bool {
    // Asking the kernel takes the lock of the process's memory map: where it would grant all, nobody is to wait for that.
    clinux_has_room(small, isAccounted || isLimited ? large : 0)
  }

  /// Waits until there is space for work on lines; false if there is none by `deadline`.
  @discardableResult
  static func wait(until deadline: UInt64 = .max) -> Bool {
    while !isEnough {
      guard MonotonicClock.now() < deadline else { return false }
      var pause = timespec(tv_sec: 0, tv_nsec: Int(retryInterval))
      nanosleep(&pause, nil)
    }
    return true
  }
}
