import StallReport

/// A system call that a thread is blocked in: its name, what it waits for, and the text for
/// reports.
package struct SystemCall {
  /// The calls that threads wait in, by their kernel's names.
  package enum Name: String {
    case read, write, open, close, stat, lstat, poll, ioctl, pread64, pwrite64, readv, writev, select, msync,
      pause, nanosleep, sendfile, connect, accept, sendto, recvfrom, sendmsg, recvmsg, clone, clone3, vfork, wait4,
      semop,
      msgsnd, msgrcv, fcntl, flock, fsync, fdatasync, truncate, ftruncate, getdents, rename, mkdir, mkdirat, rmdir,
      unlink, sync, futex, getdents64, semtimedop, waitid, openat, newfstatat, unlinkat, renameat, pselect6,
      ppoll, splice, fallocate, accept4, preadv, pwritev, recvmmsg, syncfs, sendmmsg, renameat2, statx,
      openat2
    case rtSigtimedwait = "rt_sigtimedwait"
    case rtSigsuspend = "rt_sigsuspend"
    case ioGetevents = "io_getevents"
    case clockNanosleep = "clock_nanosleep"
    case epollWait = "epoll_wait"
    case mqTimedsend = "mq_timedsend"
    case mqTimedreceive = "mq_timedreceive"
    case syncFileRange = "sync_file_range"
    case epollPwait = "epoll_pwait"
    case copyFileRange = "copy_file_range"
    case ioUringEnter = "io_uring_enter"
    case epollPwait2 = "epoll_pwait2"
    case futexWaitv = "futex_waitv"
  }

  private let call: ThreadProbe.BlockedCall
  private let thread: Int32?
  private let process: any ProcessAccess
  /// Nil where the architecture has no call of that number, or none that threads wait in.
  private let name: Name?

  /// The call that a thread is in; its descriptors are looked up in that thread's table, or the process's.
  package init(
    _ call: ThreadProbe.BlockedCall, of thread: Int32? = nil, in process: any ProcessAccess = OwnProcess()
  ) {
    self.call = call
    self.thread = thread
    self.process = process
    name = SystemCallNumbers.names[call.number]
  }

  /// What its arguments are, as far as they say what is waited for.
  private enum Arguments {
    case none, descriptor, path
    /// A directory's descriptor and a path.
    case pathAt
    case poll, select, epoll, sleep, sleepOnClock, child, childByType, descriptorAndAddress, descriptorAndCommand
  }

  private struct Entry {
    var cause: Cause
    var first: Arguments = .none
  }

  private static let entries: [Name: Entry] = [
    .read: Entry(cause: .io, first: .descriptor),
    .write: Entry(cause: .io, first: .descriptor),
    .open: Entry(cause: .io, first: .path),
    .close: Entry(cause: .io, first: .descriptor),
    .stat: Entry(cause: .io, first: .path),
    .lstat: Entry(cause: .io, first: .path),
    .poll: Entry(cause: .io, first: .poll),
    .ioctl: Entry(cause: .io, first: .descriptorAndCommand),
    .pread64: Entry(cause: .io, first: .descriptor),
    .pwrite64: Entry(cause: .io, first: .descriptor),
    .readv: Entry(cause: .io, first: .descriptor),
    .writev: Entry(cause: .io, first: .descriptor),
    .select: Entry(cause: .io, first: .select),
    .msync: Entry(cause: .io),
    .pause: Entry(cause: .sleep),
    .nanosleep: Entry(cause: .sleep, first: .sleep),
    .sendfile: Entry(cause: .io, first: .descriptor),
    .connect: Entry(cause: .io, first: .descriptorAndAddress),
    .accept: Entry(cause: .io, first: .descriptor),
    .sendto: Entry(cause: .io, first: .descriptor),
    .recvfrom: Entry(cause: .io, first: .descriptor),
    .sendmsg: Entry(cause: .io, first: .descriptor),
    .recvmsg: Entry(cause: .io, first: .descriptor),
    // Until the child runs another program: posix_spawn(3).
    .clone: Entry(cause: .unknown),
    .clone3: Entry(cause: .unknown),
    .vfork: Entry(cause: .unknown),
    .wait4: Entry(cause: .unknown, first: .child),
    .semop: Entry(cause: .lock),
    .msgsnd: Entry(cause: .io),
    .msgrcv: Entry(cause: .io),
    .fcntl: Entry(cause: .lock, first: .descriptorAndCommand),
    .flock: Entry(cause: .lock, first: .descriptor),
    .fsync: Entry(cause: .io, first: .descriptor),
    .fdatasync: Entry(cause: .io, first: .descriptor),
    .truncate: Entry(cause: .io, first: .path),
    .ftruncate: Entry(cause: .io, first: .descriptor),
    .getdents: Entry(cause: .io, first: .descriptor),
    .rename: Entry(cause: .io, first: .path),
    .mkdir: Entry(cause: .io, first: .path),
    .mkdirat: Entry(cause: .io, first: .pathAt),
    .rmdir: Entry(cause: .io, first: .path),
    .unlink: Entry(cause: .io, first: .path),
    .rtSigtimedwait: Entry(cause: .unknown),
    .rtSigsuspend: Entry(cause: .sleep),
    .sync: Entry(cause: .io),
    .futex: Entry(cause: .lock),
    .ioGetevents: Entry(cause: .io),
    .getdents64: Entry(cause: .io, first: .descriptor),
    .semtimedop: Entry(cause: .lock),
    .clockNanosleep: Entry(cause: .sleep, first: .sleepOnClock),
    .epollWait: Entry(cause: .io, first: .epoll),
    .mqTimedsend: Entry(cause: .io, first: .descriptor),
    .mqTimedreceive: Entry(cause: .io, first: .descriptor),
    .waitid: Entry(cause: .unknown, first: .childByType),
    .openat: Entry(cause: .io, first: .pathAt),
    .newfstatat: Entry(cause: .io, first: .pathAt),
    .unlinkat: Entry(cause: .io, first: .pathAt),
    .renameat: Entry(cause: .io, first: .pathAt),
    .pselect6: Entry(cause: .io, first: .select),
    .ppoll: Entry(cause: .io, first: .poll),
    .splice: Entry(cause: .io, first: .descriptor),
    .syncFileRange: Entry(cause: .io, first: .descriptor),
    .epollPwait: Entry(cause: .io, first: .epoll),
    .fallocate: Entry(cause: .io, first: .descriptor),
    .accept4: Entry(cause: .io, first: .descriptor),
    .preadv: Entry(cause: .io, first: .descriptor),
    .pwritev: Entry(cause: .io, first: .descriptor),
    .recvmmsg: Entry(cause: .io, first: .descriptor),
    .syncfs: Entry(cause: .io, first: .descriptor),
    .sendmmsg: Entry(cause: .io, first: .descriptor),
    .renameat2: Entry(cause: .io, first: .pathAt),
    .copyFileRange: Entry(cause: .io, first: .descriptor),
    .statx: Entry(cause: .io, first: .pathAt),
    .ioUringEnter: Entry(cause: .io, first: .descriptor),
    .openat2: Entry(cause: .io, first: .pathAt),
    .epollPwait2: Entry(cause: .io, first: .epoll),
    .futexWaitv: Entry(cause: .lock),
  ]

  /// Why a thread is blocked in it.
  package var cause: Cause {
    switch name {
    case .poll, .ppoll: call.arguments.1 == 0 ? .sleep : .io  // poll of nothing is a sleep
    case .select, .pselect6: call.arguments.1 | call.arguments.2 | call.arguments.3 == 0 ? .sleep : .io
    case .fcntl: isLockingFcntl ? .lock : .io
    default: name.flatMap { Self.entries[$0]?.cause } ?? .unknown
    }
  }

  /// Whether a loop waits for work in it.
  ///
  /// A thread that waits in any other call may be in the middle of a turn.
  var isLoopWait: Bool {
    switch name {
    case .poll, .ppoll, .epollWait, .epollPwait, .epollPwait2, .ioUringEnter: true
    default: false
    }
  }

  // F_SETLKW, F_OFD_SETLKW (linux/fcntl.h).
  private var isLockingFcntl: Bool { name == .fcntl && (call.arguments.1 == 7 || call.arguments.1 == 38) }

  /// The call in words, with what its arguments lead to: `read(fd 7 → pipe:[1234])`, `nanosleep(600 ms)`.
  ///
  /// Reads descriptors and memory now. They are valid only while the thread still waits in the
  /// call.
  package var text: String { text(lookingUp: true) }

  /// The call in words by its arguments alone: `read(fd 7)`.
  package var shortText: String { text(lookingUp: false) }

  private func text(lookingUp: Bool) -> String {
    guard call.number >= 0 else { return "the kernel, outside a system call (usually a page fault)" }
    guard let name, let entry = Self.entries[name] else { return "system call \(call.number)" }
    if name == .futex { return "futex(\(futexOperation))" }
    let words = SystemCallArguments(call: call, thread: thread, process: process, isLookingUp: lookingUp)
    let parts: [String?] =
      switch entry.first {
      case .none: []
      case .descriptor: [words.descriptor]
      case .path: [words.path(call.arguments.0)]
      case .pathAt: [words.path(call.arguments.1)]
      case .poll:
        [words.polled, name == .poll ? words.timeout(call.arguments.2) : words.timeout(at: call.arguments.2)]
      case .select:
        [
          call.arguments.0 == 0 ? nil : "fd below \(Int32(truncatingIfNeeded: call.arguments.0))",
          words.timeout(at: call.arguments.4, fractionUnit: name == .select ? 1000 : 1),
        ]
      case .epoll:
        [
          words.descriptor,
          name == .epollPwait2 ? words.timeout(at: call.arguments.3) : words.timeout(call.arguments.3),
        ]
      case .sleep: [words.duration(at: call.arguments.0)]
      case .sleepOnClock:
        [call.arguments.1 & 1 == 0 ? words.duration(at: call.arguments.2) : "until a set time"]
      case .child: [words.child(call.arguments.0)]
      case .childByType: [words.child(type: call.arguments.0, call.arguments.1)]
      case .descriptorAndAddress: [words.descriptor, words.socketAddress(call.arguments.1, length: call.arguments.2)]
      case .descriptorAndCommand: [words.descriptor, isLockingFcntl ? "lock" : "command \(call.arguments.1)"]
      }
    let known = parts.compactMap { $0 }
    return known.isEmpty ? name.rawValue : "\(name.rawValue)(\(known.joined(separator: ", ")))"
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
    /// FUTEX_PRIVATE_FLAG: no other process and not the kernel wakes the waiter.
    var isPrivate: Bool
    var hasTimeout: Bool
  }

  /// The futex that is waited on, or nil.
  var futex: Futex? {
    guard name == .futex else { return nil }
    // FUTEX_WAIT 0, FUTEX_LOCK_PI 6, FUTEX_WAIT_BITSET 9, FUTEX_LOCK_PI2 13 (linux/futex.h); the private and clock flags are
    // masked off.
    let operation = call.arguments.1 & 127
    return Futex(
      address: call.arguments.0, value: UInt32(truncatingIfNeeded: call.arguments.2),
      isPriorityInheriting: operation == 6 || operation == 13, isWait: operation == 0 || operation == 9,
      isPrivate: call.arguments.1 & 128 != 0,
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
