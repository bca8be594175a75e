import CLinux
import Glibc

/// A system call that a thread stands still in: its name, what it waits for, and in which words to say so.
///
/// Numbers of x86_64 (arch/x86/entry/syscalls/syscall_64.tbl).
struct SystemCall {
  private let call: ThreadProbe.BlockedCall

  init(_ call: ThreadProbe.BlockedCall) { self.call = call }

  private enum First { case descriptor, path, other }

  private struct Entry {
    var name: String
    var cause: Cause
    var first: First = .other
  }

  private static let futexNumber: Int64 = 202

  private static let entries: [Int64: Entry] = [
    0: Entry(name: "read", cause: .io, first: .descriptor),
    1: Entry(name: "write", cause: .io, first: .descriptor),
    2: Entry(name: "open", cause: .io, first: .path),
    7: Entry(name: "poll", cause: .io),
    16: Entry(name: "ioctl", cause: .io, first: .descriptor),
    17: Entry(name: "pread64", cause: .io, first: .descriptor),
    18: Entry(name: "pwrite64", cause: .io, first: .descriptor),
    19: Entry(name: "readv", cause: .io, first: .descriptor),
    20: Entry(name: "writev", cause: .io, first: .descriptor),
    23: Entry(name: "select", cause: .io),
    26: Entry(name: "msync", cause: .io),
    34: Entry(name: "pause", cause: .sleep),
    35: Entry(name: "nanosleep", cause: .sleep),
    40: Entry(name: "sendfile", cause: .io, first: .descriptor),
    42: Entry(name: "connect", cause: .io, first: .descriptor),
    43: Entry(name: "accept", cause: .io, first: .descriptor),
    44: Entry(name: "sendto", cause: .io, first: .descriptor),
    45: Entry(name: "recvfrom", cause: .io, first: .descriptor),
    46: Entry(name: "sendmsg", cause: .io, first: .descriptor),
    47: Entry(name: "recvmsg", cause: .io, first: .descriptor),
    61: Entry(name: "wait4", cause: .unknown),
    65: Entry(name: "semop", cause: .lock),
    69: Entry(name: "msgsnd", cause: .io),
    70: Entry(name: "msgrcv", cause: .io),
    72: Entry(name: "fcntl", cause: .lock, first: .descriptor),
    73: Entry(name: "flock", cause: .lock, first: .descriptor),
    74: Entry(name: "fsync", cause: .io, first: .descriptor),
    75: Entry(name: "fdatasync", cause: .io, first: .descriptor),
    76: Entry(name: "truncate", cause: .io, first: .path),
    77: Entry(name: "ftruncate", cause: .io, first: .descriptor),
    82: Entry(name: "rename", cause: .io, first: .path),
    87: Entry(name: "unlink", cause: .io, first: .path),
    128: Entry(name: "rt_sigtimedwait", cause: .unknown),
    130: Entry(name: "rt_sigsuspend", cause: .sleep),
    162: Entry(name: "sync", cause: .io),
    futexNumber: Entry(name: "futex", cause: .lock),
    208: Entry(name: "io_getevents", cause: .io),
    220: Entry(name: "semtimedop", cause: .lock),
    230: Entry(name: "clock_nanosleep", cause: .sleep),
    232: Entry(name: "epoll_wait", cause: .io, first: .descriptor),
    242: Entry(name: "mq_timedsend", cause: .io, first: .descriptor),
    243: Entry(name: "mq_timedreceive", cause: .io, first: .descriptor),
    247: Entry(name: "waitid", cause: .unknown),
    257: Entry(name: "openat", cause: .io),
    262: Entry(name: "newfstatat", cause: .io),
    270: Entry(name: "pselect6", cause: .io),
    271: Entry(name: "ppoll", cause: .io),
    275: Entry(name: "splice", cause: .io, first: .descriptor),
    281: Entry(name: "epoll_pwait", cause: .io, first: .descriptor),
    285: Entry(name: "fallocate", cause: .io, first: .descriptor),
    288: Entry(name: "accept4", cause: .io, first: .descriptor),
    295: Entry(name: "preadv", cause: .io, first: .descriptor),
    296: Entry(name: "pwritev", cause: .io, first: .descriptor),
    299: Entry(name: "recvmmsg", cause: .io, first: .descriptor),
    306: Entry(name: "syncfs", cause: .io, first: .descriptor),
    307: Entry(name: "sendmmsg", cause: .io, first: .descriptor),
    426: Entry(name: "io_uring_enter", cause: .io, first: .descriptor),
    441: Entry(name: "epoll_pwait2", cause: .io, first: .descriptor),
    449: Entry(name: "futex_waitv", cause: .lock),
  ]

  /// What standing still in it means.
  var cause: Cause {
    switch call.number {
    case 7, 271: call.arguments.1 == 0 ? .sleep : .io  // poll of nothing is a sleep
    case 23, 270: call.arguments.0 == 0 ? .sleep : .io
    case 72: isLockingFcntl ? .lock : .io
    default: Self.entries[call.number]?.cause ?? .unknown
    }
  }

  // F_SETLKW, F_OFD_SETLKW (linux/fcntl.h).
  private var isLockingFcntl: Bool { call.arguments.1 == 7 || call.arguments.1 == 38 }

  /// The call in words: `read(fd 7 → pipe:[1234])`.
  ///
  /// Looks the descriptor up now: it is what the thread waits on only while it still stands there.
  var text: String {
    guard call.number >= 0 else { return "the kernel, outside any system call (a page fault, most often)" }
    guard let entry = Self.entries[call.number] else { return "system call \(call.number)" }
    if call.number == Self.futexNumber { return "futex(\(futexOperation))" }
    switch entry.first {
    case .descriptor:
      let descriptor = Int32(truncatingIfNeeded: call.arguments.0)
      return "\(entry.name)(fd \(descriptor)\(Self.target(of: descriptor).map { " → " + $0 } ?? ""))"
    case .path, .other: return entry.name
    }
  }

  /// The futex that is waited for: its address, and whether the kernel knows its owner (priority inheritance).
  var futex: (address: UInt64, isPriorityInheriting: Bool)? {
    guard call.number == Self.futexNumber else { return nil }
    // FUTEX_LOCK_PI 6, FUTEX_LOCK_PI2 13 (linux/futex.h); the private and clock flags are masked off.
    let operation = call.arguments.1 & 127
    return (call.arguments.0, operation == 6 || operation == 13)
  }

  private var futexOperation: String {
    switch call.arguments.1 & 127 {
    case 0, 9: "wait"
    case 6, 13: "lock"
    default: "operation \(call.arguments.1 & 127)"
    }
  }

  private static func target(of descriptor: Int32) -> String? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
      let count = readlink("/proc/self/fd/\(descriptor)", buffer.baseAddress!, buffer.count)
      guard count > 0 else { return nil }
      return String(decoding: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]), as: UTF8.self)
    }
  }
}
