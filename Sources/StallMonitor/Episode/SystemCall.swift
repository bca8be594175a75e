import StallReport

/// A system call that a thread stands still in: its name, what it waits for, and in which words to say so.
///
/// Numbers of x86_64 (arch/x86/entry/syscalls/syscall_64.tbl).
struct SystemCall {
  private let call: ThreadProbe.BlockedCall
  private let thread: Int32?

  /// The call that a thread is in; its descriptors are looked up in that thread's table, or the process's.
  init(_ call: ThreadProbe.BlockedCall, of thread: Int32? = nil) {
    self.call = call
    self.thread = thread
  }

  /// What its arguments are, as far as they say what is waited for.
  private enum Arguments {
    case none, descriptor, path
    /// A directory's descriptor and a path.
    case pathAt
    case poll, select, epoll, sleep, sleepOnClock, child, childByType, descriptorAndAddress, descriptorAndCommand
  }

  private struct Entry {
    var name: String
    var cause: Cause
    var first: Arguments = .none
  }

  private static let futexNumber: Int64 = 202

  private static let entries: [Int64: Entry] = [
    0: Entry(name: "read", cause: .io, first: .descriptor),
    1: Entry(name: "write", cause: .io, first: .descriptor),
    2: Entry(name: "open", cause: .io, first: .path),
    3: Entry(name: "close", cause: .io, first: .descriptor),
    4: Entry(name: "stat", cause: .io, first: .path),
    6: Entry(name: "lstat", cause: .io, first: .path),
    7: Entry(name: "poll", cause: .io, first: .poll),
    16: Entry(name: "ioctl", cause: .io, first: .descriptorAndCommand),
    17: Entry(name: "pread64", cause: .io, first: .descriptor),
    18: Entry(name: "pwrite64", cause: .io, first: .descriptor),
    19: Entry(name: "readv", cause: .io, first: .descriptor),
    20: Entry(name: "writev", cause: .io, first: .descriptor),
    23: Entry(name: "select", cause: .io, first: .select),
    26: Entry(name: "msync", cause: .io),
    34: Entry(name: "pause", cause: .sleep),
    35: Entry(name: "nanosleep", cause: .sleep, first: .sleep),
    40: Entry(name: "sendfile", cause: .io, first: .descriptor),
    42: Entry(name: "connect", cause: .io, first: .descriptorAndAddress),
    43: Entry(name: "accept", cause: .io, first: .descriptor),
    44: Entry(name: "sendto", cause: .io, first: .descriptor),
    45: Entry(name: "recvfrom", cause: .io, first: .descriptor),
    46: Entry(name: "sendmsg", cause: .io, first: .descriptor),
    47: Entry(name: "recvmsg", cause: .io, first: .descriptor),
    58: Entry(name: "vfork", cause: .unknown),
    61: Entry(name: "wait4", cause: .unknown, first: .child),
    65: Entry(name: "semop", cause: .lock),
    69: Entry(name: "msgsnd", cause: .io),
    70: Entry(name: "msgrcv", cause: .io),
    72: Entry(name: "fcntl", cause: .lock, first: .descriptorAndCommand),
    73: Entry(name: "flock", cause: .lock, first: .descriptor),
    74: Entry(name: "fsync", cause: .io, first: .descriptor),
    75: Entry(name: "fdatasync", cause: .io, first: .descriptor),
    76: Entry(name: "truncate", cause: .io, first: .path),
    77: Entry(name: "ftruncate", cause: .io, first: .descriptor),
    78: Entry(name: "getdents", cause: .io, first: .descriptor),
    82: Entry(name: "rename", cause: .io, first: .path),
    83: Entry(name: "mkdir", cause: .io, first: .path),
    84: Entry(name: "rmdir", cause: .io, first: .path),
    87: Entry(name: "unlink", cause: .io, first: .path),
    128: Entry(name: "rt_sigtimedwait", cause: .unknown),
    130: Entry(name: "rt_sigsuspend", cause: .sleep),
    162: Entry(name: "sync", cause: .io),
    futexNumber: Entry(name: "futex", cause: .lock),
    208: Entry(name: "io_getevents", cause: .io),
    217: Entry(name: "getdents64", cause: .io, first: .descriptor),
    220: Entry(name: "semtimedop", cause: .lock),
    230: Entry(name: "clock_nanosleep", cause: .sleep, first: .sleepOnClock),
    232: Entry(name: "epoll_wait", cause: .io, first: .epoll),
    242: Entry(name: "mq_timedsend", cause: .io, first: .descriptor),
    243: Entry(name: "mq_timedreceive", cause: .io, first: .descriptor),
    247: Entry(name: "waitid", cause: .unknown, first: .childByType),
    257: Entry(name: "openat", cause: .io, first: .pathAt),
    262: Entry(name: "newfstatat", cause: .io, first: .pathAt),
    263: Entry(name: "unlinkat", cause: .io, first: .pathAt),
    264: Entry(name: "renameat", cause: .io, first: .pathAt),
    270: Entry(name: "pselect6", cause: .io, first: .select),
    271: Entry(name: "ppoll", cause: .io, first: .poll),
    275: Entry(name: "splice", cause: .io, first: .descriptor),
    277: Entry(name: "sync_file_range", cause: .io, first: .descriptor),
    281: Entry(name: "epoll_pwait", cause: .io, first: .epoll),
    285: Entry(name: "fallocate", cause: .io, first: .descriptor),
    288: Entry(name: "accept4", cause: .io, first: .descriptor),
    295: Entry(name: "preadv", cause: .io, first: .descriptor),
    296: Entry(name: "pwritev", cause: .io, first: .descriptor),
    299: Entry(name: "recvmmsg", cause: .io, first: .descriptor),
    306: Entry(name: "syncfs", cause: .io, first: .descriptor),
    307: Entry(name: "sendmmsg", cause: .io, first: .descriptor),
    316: Entry(name: "renameat2", cause: .io, first: .pathAt),
    326: Entry(name: "copy_file_range", cause: .io, first: .descriptor),
    332: Entry(name: "statx", cause: .io, first: .pathAt),
    426: Entry(name: "io_uring_enter", cause: .io, first: .descriptor),
    437: Entry(name: "openat2", cause: .io, first: .pathAt),
    441: Entry(name: "epoll_pwait2", cause: .io, first: .epoll),
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
  private var isLockingFcntl: Bool { call.number == 72 && (call.arguments.1 == 7 || call.arguments.1 == 38) }

  /// The call in words, with what its arguments lead to: `read(fd 7 → pipe:[1234])`, `nanosleep(600 ms)`.
  ///
  /// Looks descriptors and memory up now: they are what the thread waits for only while it still stands there.
  var text: String { text(lookingUp: true) }

  /// The call in words by its arguments alone: `read(fd 7)`.
  var shortText: String { text(lookingUp: false) }

  private func text(lookingUp: Bool) -> String {
    guard call.number >= 0 else { return "the kernel, outside any system call (a page fault, most often)" }
    guard let entry = Self.entries[call.number] else { return "system call \(call.number)" }
    if call.number == Self.futexNumber { return "futex(\(futexOperation))" }
    let words = SystemCallArguments(call: call, thread: thread, isLookingUp: lookingUp)
    let parts: [String?] =
      switch entry.first {
      case .none: []
      case .descriptor: [words.descriptor]
      case .path: [words.path(call.arguments.0)]
      case .pathAt: [words.path(call.arguments.1)]
      case .poll:
        [words.polled, call.number == 7 ? words.timeout(call.arguments.2) : words.timeout(at: call.arguments.2)]
      case .select:
        [
          call.arguments.0 == 0 ? nil : "fd below \(Int32(truncatingIfNeeded: call.arguments.0))",
          words.timeout(at: call.arguments.4, fractionUnit: call.number == 23 ? 1000 : 1),
        ]
      case .epoll:
        [words.descriptor, call.number == 441 ? words.timeout(at: call.arguments.3) : words.timeout(call.arguments.3)]
      case .sleep: [words.duration(at: call.arguments.0)]
      case .sleepOnClock:
        [call.arguments.1 & 1 == 0 ? words.duration(at: call.arguments.2) : "until a set time"]
      case .child: [words.child(call.arguments.0)]
      case .childByType: [words.child(type: call.arguments.0, call.arguments.1)]
      case .descriptorAndAddress: [words.descriptor, words.socketAddress(call.arguments.1, length: call.arguments.2)]
      case .descriptorAndCommand: [words.descriptor, isLockingFcntl ? "lock" : "command \(call.arguments.1)"]
      }
    let known = parts.compactMap { $0 }
    return known.isEmpty ? entry.name : "\(entry.name)(\(known.joined(separator: ", ")))"
  }

  /// A futex that is waited on.
  struct Futex {
    var address: UInt64
    /// The value that the word had when the wait began.
    var value: UInt32
    /// FUTEX_LOCK_PI: the kernel knows the owner.
    var isPriorityInheriting: Bool
    /// FUTEX_WAIT, with or without a bit set.
    var isWait: Bool
    var hasTimeout: Bool
  }

  /// The futex that is waited on, or nil.
  var futex: Futex? {
    guard call.number == Self.futexNumber else { return nil }
    // FUTEX_WAIT 0, FUTEX_LOCK_PI 6, FUTEX_WAIT_BITSET 9, FUTEX_LOCK_PI2 13 (linux/futex.h); the private and clock flags are
    // masked off.
    let operation = call.arguments.1 & 127
    return Futex(
      address: call.arguments.0, value: UInt32(truncatingIfNeeded: call.arguments.2),
      isPriorityInheriting: operation == 6 || operation == 13, isWait: operation == 0 || operation == 9,
      hasTimeout: call.arguments.3 != 0)
  }

  private var futexOperation: String {
    switch call.arguments.1 & 127 {
    case 0, 9: "wait"
    case 6, 13: "lock"
    default: "operation \(call.arguments.1 & 127)"
    }
  }
}
