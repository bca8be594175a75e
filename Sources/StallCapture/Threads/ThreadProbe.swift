import CLinux
import PlatformLibc

/// What the kernel says of one thread, without touching it.
///
/// Descriptors are opened once; reads cost 2 to 15 us and allocate nothing. Any one may be missing (no procfs, an old
/// kernel): its values are then unknown. Used by one thread at a time.
package struct ThreadProbe: ~Copyable {
  /// The kernel's id of the thread.
  package let id: Int32
  /// The process that has it.
  package let process: ProcessHandle
  /// The files of the thread that it keeps open, by their names in the thread's directory.
  private enum File: String, CaseIterable {
    case syscall, schedstat, stat, status
  }

  /// How many files of the thread it keeps open.
  package static var fileCount: Int { File.allCases.count }
  private let syscallFile: ProcFile?
  private let schedstatFile: ProcFile?
  private let statFile: ProcFile?
  private let statusFile: ProcFile?
  // Why `syscall` could not be opened: an errno value, or 0.
  private let openError: Int32
  // Made at once: a stall is no time to allocate.
  private let text = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 8)

  package init(thread id: Int32, of process: ProcessHandle) {
    self.id = id
    self.process = process
    let directory = process.directory(of: id)
    func open(_ file: File) -> ProcFile? { ProcFile(directory + "/" + file.rawValue) }
    errno = 0
    syscallFile = open(.syscall)
    openError = syscallFile == nil ? errno : 0
    schedstatFile = open(.schedstat)
    statFile = open(.stat)
    statusFile = open(.status)
  }

  deinit { text.deallocate() }

  /// The state of a thread, from `/proc/PID/task/TID/syscall` (proc(5)).
  package enum Activity: Equatable, Sendable {
    /// On a processor, or waiting for one.
    case running
    /// Blocked in the kernel.
    case blocked(BlockedCall)
    /// The thread has ended, or the file cannot be read.
    case unknown
  }

  /// A thread that is blocked in the kernel: in a system call, or (`number` -1) in a page fault or the like.
  package struct BlockedCall: Equatable, Sendable {
    package var number: Int64
    /// In the order of the calling convention.
    ///
    /// Zeros outside a system call.
    package var arguments: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0)
    package var stackPointer: UInt64
    package var programCounter: UInt64

    package static func == (a: Self, b: Self) -> Bool {
      a.number == b.number && a.stackPointer == b.stackPointer && a.programCounter == b.programCounter
        && a.arguments == b.arguments
    }
  }

  /// Whether the thread has ended, after ``activity()`` was `unknown`; false if its files cannot be opened at all.
  package var hasEnded: Bool {
    syscallFile?.threadHasEnded() ?? process.lacksThread(id)
  }

  /// Why it is not known what this process's threads do, in words; or nil if it is.
  ///
  /// Called when the watch begins. Checks the calling thread.
  package static func problem() -> String? {
    guard ProcessHandle.own.checkNumbers() else { return "/proc has the thread ids of another PID namespace" }
    return ThreadProbe(thread: clinux_gettid(), of: .own).problem
  }

  /// Why it is not known what the thread does, in words; nil if it is, or if the thread has ended.
  package var problem: String? {
    guard activity() == .unknown, !hasEnded else { return nil }
    let reason = openError == 0 ? "it has not the content of proc(5)" : String(cString: strerror(openError))
    return "\(process.directory(of: id))/syscall: \(reason)"
  }

  package borrowing func activity() -> Activity {
    guard let activity = syscallFile?.parse({ Self.parseActivity($0) }) else { return .unknown }
    guard case .blocked(var call) = activity, call.number == SystemCallNumbers.restart,
      let number = call.restartedNumber(in: process)
    else {
      return activity
    }
    call.number = number
    return .blocked(call)
  }

  static func parseActivity(_ line: UnsafeRawBufferPointer) -> Activity {
    if line.starts(with: "running".utf8) { return .running }
    var scanner = FieldScanner(line)
    guard let number = scanner.number() else { return .unknown }
    var arguments: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0)
    if number >= 0 {
      guard let a = scanner.number(), let b = scanner.number(), let c = scanner.number(), let d = scanner.number(),
        let e = scanner.number(), let f = scanner.number()
      else { return .unknown }
      arguments = (
        UInt64(bitPattern: a), UInt64(bitPattern: b), UInt64(bitPattern: c), UInt64(bitPattern: d),
        UInt64(bitPattern: e), UInt64(bitPattern: f)
      )
    }
    // The program counter is 0 in a call through a null pointer.
    guard let sp = scanner.number(), let pc = scanner.number(), sp != 0 else { return .unknown }
    return .blocked(
      BlockedCall(
        number: number, arguments: arguments, stackPointer: UInt64(bitPattern: sp),
        programCounter: UInt64(bitPattern: pc)))
  }

  /// Processor time, time spent waiting for a processor, and how often the thread was put onto one.
  package struct Schedule: Equatable {
    var runNanoseconds: UInt64
    package var runDelayNanoseconds: UInt64
    /// Grows each time the thread gets a processor: unchanged means that it has not run in between.
    package var timeslices: UInt64

    /// Parses `schedstat`: run time, run delay and timeslices (Documentation/scheduler/sched-stats.rst); nil if nothing is counted.
    package init?(_ line: UnsafeRawBufferPointer) {
      var scanner = FieldScanner(line)
      // Three zeros are those of a kernel that does not count (CONFIG_SCHED_INFO).
      guard let run = scanner.number(), let delay = scanner.number(), let slices = scanner.number(), slices > 0 else {
        return nil
      }
      runNanoseconds = UInt64(bitPattern: run)
      runDelayNanoseconds = UInt64(bitPattern: delay)
      timeslices = UInt64(bitPattern: slices)
    }
  }

  /// Reads `schedstat`; nil where the kernel does not count it (CONFIG_SCHED_INFO).
  package borrowing func schedule() -> Schedule? {
    schedstatFile?.parse { Schedule($0) }
  }

  /// Whether the kernel counts how long this process's threads wait for a processor.
  package static var countsRunDelay: Bool { ThreadProbe(thread: clinux_gettid(), of: .own).schedule() != nil }

  /// A number that grows whenever the thread runs: its timeslices, or its processor time where those are not counted.
  borrowing func runCount() -> UInt64? { schedule()?.timeslices ?? processorTime() }

  /// Reads `stat`.
  package borrowing func status() -> TaskStatus? {
    statFile?.parse { TaskStatus($0) }
  }

  /// A thread's signal masks: bit n - 1 is signal n.
  struct SignalState: Equatable {
    var blocked: UInt64
    /// Sent to the thread and not delivered yet.
    var pending: UInt64
    /// The thread may only read, write and end (seccomp(2), SECCOMP_SET_MODE_STRICT).
    var isStrictlyFiltered = false

    func isBlocked(_ signal: Int32) -> Bool { blocked >> UInt64(signal - 1) & 1 != 0 }
    func isPending(_ signal: Int32) -> Bool { pending >> UInt64(signal - 1) & 1 != 0 }
  }

  /// The thread's `SigBlk`, `SigPnd` and `Seccomp` (proc(5), `status`); nil if they cannot be read.
  borrowing func signalState() -> SignalState? {
    guard let count = statusFile?.read(into: text) else { return nil }
    let text = UnsafeRawBufferPointer(rebasing: text[..<count])
    guard let pending = Self.mask("SigPnd:\t", in: text), let blocked = Self.mask("SigBlk:\t", in: text) else {
      return nil
    }
    return SignalState(
      blocked: blocked, pending: pending, isStrictlyFiltered: FieldScanner(after: "\nSeccomp:\t1", in: text) != nil)
  }

  /// How often the thread has given its processor up by itself (`voluntary_ctxt_switches` of proc(5), `status`).
  ///
  /// Nil if that cannot be read.
  borrowing func voluntarySwitches() -> UInt64? {
    guard let count = statusFile?.read(into: text) else { return nil }
    let text = UnsafeRawBufferPointer(rebasing: text[..<count])
    var scanner = FieldScanner(after: "\nvoluntary_ctxt_switches:\t", in: text)
    return scanner?.number().map { UInt64(bitPattern: $0) }
  }

  /// The processor time that the thread has had up to now, to the nanosecond, also while it runs.
  ///
  /// Of a thread of another process, which has no clock here, it is what `schedstat` says: while the thread runs, as of the last tick.
  package borrowing func processorTime() -> UInt64? {
    process.isOwn ? processorClock(2) : schedule()?.runNanoseconds
  }

  /// The processor time that the kernel has charged to user mode and to itself, in whole ticks where it counts by these.
  ///
  /// Nil for a thread of another process.
  borrowing func modeTimes() -> (user: UInt64, kernel: UInt64)? {
    // CPUCLOCK_PROF is both together, and CPUCLOCK_VIRT user mode.
    guard let both = processorClock(0), let user = processorClock(1) else { return nil }
    return (user, both > user ? both - user : 0)
  }

  /// A clock of another thread of this process (linux/posix-timers.h: the complement of the id; CPUCLOCK_SCHED is 2, 4 says per thread).
  private borrowing func processorClock(_ kind: Int32) -> UInt64? {
    var time = timespec()
    guard process.isOwn, clock_gettime(clockid_t(~id << 3 | 4 | kind), &time) == 0 else { return nil }
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  private static func mask(_ key: StaticString, in text: UnsafeRawBufferPointer) -> UInt64? {
    var scanner = FieldScanner(after: key, in: text)
    return scanner?.field().flatMap { FieldScanner.number($0, radix: 16) }.map { UInt64(bitPattern: $0) }
  }
}
