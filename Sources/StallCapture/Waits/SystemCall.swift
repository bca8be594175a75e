import StallReport

/// A system call that a thread is blocked in: its name, what it waits for, and the text for
/// reports.
package struct SystemCall {
  private let call: ThreadProbe.BlockedCall
  private let thread: Int32?
  private let process: ProcessHandle
  /// Nil if the kernel's list has no call of that number.
  private let row: KernelCall?
  private var name: String? { row?.name }

  /// The call that a thread is in; its descriptors are looked up in that thread's table, or the process's.
  package init(
    _ call: ThreadProbe.BlockedCall, of thread: Int32? = nil, in process: ProcessHandle
  ) {
    self.call = call
    self.thread = thread
    self.process = process
    row = KernelCall(call.number)
  }

  /// Why a thread is blocked in it.
  ///
  /// A call that is given a file waits for it, and another one for what other threads do in the kernel, unless the call is known.
  package var cause: Cause {
    guard let name else { return .unknown }
    switch name {
    case "poll", "ppoll": return call.arguments.1 == 0 ? .sleep : .io  // poll of nothing is a sleep
    case "select", "pselect6": return call.arguments.1 | call.arguments.2 | call.arguments.3 == 0 ? .sleep : .io
    case "pause", "nanosleep", "clock_nanosleep", "rt_sigsuspend", "rt_sigtimedwait": return .sleep
    case "fcntl" where isLockingFcntl, "flock": return .lock
    case "sync", "msync", "io_getevents", "io_pgetevents", "io_submit", "io_destroy", "msgsnd", "msgrcv", "syslog":
      return .io
    // A call with a time limit that is continued, and is not known to be which.
    case "restart_syscall": return .unknown
    default: return row?.paths != 0 || descriptor != nil ? .io : .lock
    }
  }

  /// What a thread waits for in it, if no holder of a lock is found.
  package var waitedFor: WaitedFor {
    if let futex { return futex.hasTimeout ? .timeLimit : futex.isPrivate ? .thread : .threadOrProcess }
    return switch name {
    case "wait4", "waitid", "vfork": .process
    // Until the child runs another program: posix_spawn(3).
    case "clone" where isVfork(call.arguments.0): .process
    case "clone3" where process.load(call.arguments.0, as: UInt64.self).map(isVfork) == true: .process
    case "futex", "futex_wait", "futex_waitv", "semop", "semtimedop", "flock", "fcntl": .threadOrProcess
    default: .kernel
    }
  }

  // CLONE_VFORK (linux/sched.h).
  private func isVfork(_ flags: UInt64) -> Bool { flags & 0x4000 != 0 }

  /// The number of the descriptor that it is given: an anonymous mapping has none.
  private var descriptor: Int32? {
    guard let index = row?.descriptor else { return nil }
    let number = Int32(truncatingIfNeeded: argument(index))
    return number >= 0 ? number : nil
  }

  private func argument(_ index: Int) -> UInt64 {
    let all = call.arguments
    return switch index {
    case 0: all.0
    case 1: all.1
    case 2: all.2
    case 3: all.3
    case 4: all.4
    default: all.5
    }
  }

  /// Whether a loop waits for work in it.
  ///
  /// A thread that waits in any other call may be in the middle of a turn.
  var isLoopWait: Bool {
    switch name {
    case "poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2", "io_uring_enter": true
    default: false
    }
  }

  // F_SETLKW, F_OFD_SETLKW (linux/fcntl.h).
  private var isLockingFcntl: Bool { name == "fcntl" && (call.arguments.1 == 7 || call.arguments.1 == 38) }

  /// The call in words, with what its arguments lead to: `read(fd 7 → pipe:[1234])`, `nanosleep(600 ms)`.
  ///
  /// Reads descriptors and memory now. They are valid only while the thread still waits in the
  /// call.
  package var text: String { text(lookingUp: true) }

  /// The call in words by its arguments alone: `read(fd 7)`.
  package var shortText: String { text(lookingUp: false) }

  private func text(lookingUp: Bool) -> String {
    guard call.number >= 0 else { return "the kernel, outside a system call (usually a page fault)" }
    guard let row else { return "system call \(call.number)" }
    if row.name == "futex" { return "futex(\(futexOperation))" }
    let known = parts(of: row, lookingUp: lookingUp).compactMap { $0 }
    return known.isEmpty ? row.name : "\(row.name)(\(known.joined(separator: ", ")))"
  }

  /// The arguments in words, as far as they say what is waited for.
  private func parts(of row: KernelCall, lookingUp: Bool) -> [String?] {
    let words = SystemCallArguments(call: call, thread: thread, process: process, isLookingUp: lookingUp)
    let arguments = call.arguments
    switch row.name {
    case "poll": return [words.polled, words.timeout(arguments.2)]
    case "ppoll": return [words.polled, words.timeout(at: arguments.2)]
    case "select", "pselect6":
      return [
        arguments.0 == 0 ? nil : "fd below \(Int32(truncatingIfNeeded: arguments.0))",
        words.timeout(at: arguments.4, fractionUnit: row.name == "select" ? 1000 : 1),
      ]
    case "nanosleep": return [words.duration(at: arguments.0)]
    case "clock_nanosleep": return [arguments.1 & 1 == 0 ? words.duration(at: arguments.2) : "until a set time"]
    case "wait4": return [words.child(arguments.0)]
    case "waitid": return [words.child(type: arguments.0, arguments.1)]
    default: break
    }
    var parts = (0..<6).filter { row.paths & 1 << $0 != 0 }.map { words.path(argument($0)) }
    if let descriptor { parts.append(words.descriptor(descriptor)) }
    switch row.name {
    case "epoll_wait", "epoll_pwait": parts.append(words.timeout(arguments.3))
    case "epoll_pwait2": parts.append(words.timeout(at: arguments.3))
    case "connect": parts.append(words.socketAddress(arguments.1, length: arguments.2))
    case "ioctl", "fcntl": parts.append(isLockingFcntl ? "lock" : "command \(arguments.1)")
    default: break
    }
    return parts
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
    guard name == "futex" else { return nil }
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
