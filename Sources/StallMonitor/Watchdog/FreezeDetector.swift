import CLinux
import PlatformLibc
import StallCapture

/// Detects that the whole process was kept from running: stopped by a signal, frozen with its control group, held by a debugger, or
/// paused with its machine.
///
/// A watchdog that wakes late is no evidence of that: it may have waited for a processor, its group's quota may have been used up, or a
/// hypervisor may have taken the processor away. The evidence is that the kernel has woken the thread for nothing else than to stop it.
///
/// A fork delays the other threads of its process, too, until it is over: the kernel holds back their page faults while it copies the
/// memory, and the monitor's threads wait for it.
struct FreezeDetector: ~Copyable {
  /// A freeze, as far as one wait shows it; times in nanoseconds.
  struct Freeze: Equatable {
    /// How late the wait ended, without what is explained otherwise.
    var atLeast: UInt64
    /// The whole wait: when in it the freeze began is not known.
    var atMost: UInt64
  }

  /// A smaller lateness is normal scheduling.
  static let limit: UInt64 = 50_000_000

  /// The shortest freeze that is reported as a stop of the process.
  ///
  /// It must also last as long as the threshold of one of the loops. A freeze that is not reported
  /// is only deducted from the turns.
  static let worthReporting: UInt64 = 100_000_000

  /// An unexplained delay of this length is always a freeze.
  private static let machinePause: UInt64 = 10_000_000_000

  private let watchdog: ThreadProbe
  private let groups = ProcFile(ProcessHandle.own.controlGroups)
  private var before = Counts()

  private struct Counts {
    /// Time in which the watchdog was ready to run and something else had the processor, or its group's quota was used up.
    var runDelay: UInt64 = 0
    /// How often the thread has gone to sleep.
    var sleeps = 0
    /// Its page faults that read from disk, and the others.
    var diskFaults = 0
    var faults = 0
    /// How long the process's forks have taken, and whether one was in progress.
    var forking: UInt64 = 0
    var isForking = false
    /// Processor time of the process.
    ///
    /// The kernel adds it up over all threads, in some 20 ns for each.
    var processorTime: UInt64 = 0
  }

  /// Call it on the watchdog's thread.
  init() { watchdog = ThreadProbe(thread: clinux_gettid(), of: .own) }

  /// Call it before each wait.
  mutating func willWait() { before = counts() }

  /// Judges a wait that has just ended late.
  ///
  /// - Parameters:
  ///   - lateness: How late it ended.
  ///   - wait: How long it lasted.
  /// - Returns: The freeze, or nil if there was none.
  func freeze(lateness: UInt64, of wait: UInt64) -> Freeze? {
    guard lateness > Self.limit else { return nil }
    let now = counts()
    let explained = now.runDelay &- before.runDelay
    guard lateness > explained, lateness - explained > Self.limit else { return nil }
    var unexplained = lateness - explained
    if unexplained < Self.machinePause {
      let forking = now.isForking ? unexplained : now.forking &- before.forking
      guard unexplained > forking, unexplained - forking > Self.limit else { return nil }
      unexplained -= forking
      guard isFreeze(unexplained, now) else { return nil }
    }
    return Freeze(atLeast: unexplained, atMost: max(wait, lateness))
  }

  private func isFreeze(_ unexplained: UInt64, _ now: Counts) -> Bool {
    let sleeps = now.sleeps - before.sleeps
    // A fault sleeps, too: while the page is read from disk, or, once, while a fork or a mapping holds the memory. Such a holder needs a
    // processor for that.
    let faults = now.faults - before.faults
    let hasComputed = now.processorTime &- before.processorTime >= unexplained / 2
    if sleeps > 1 + (hasComputed ? faults : 0), now.diskFaults == before.diskFaults { return true }
    return !hasComputed && isInFreezerGroup
  }

  private func counts() -> Counts {
    var counts = Counts()
    clinux_thread_waits(&counts.sleeps, &counts.diskFaults, &counts.faults)
    counts.runDelay = watchdog.schedule()?.runDelayNanoseconds ?? 0
    // In this order: of a fork that ends in between, neither would be known.
    counts.isForking = clinux_fork_is_in_progress()
    counts.forking = clinux_fork_time()
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    counts.processorTime = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    return counts
  }

  /// Whether the process is now in a group of a version 1 freezer, which freezes threads where they sleep.
  ///
  /// The root group cannot be frozen.
  private var isInFreezerGroup: Bool {
    let text = groups?.parse(capacity: 8192) { String(decoding: $0, as: UTF8.self) } ?? ""
    return ControlGroups.memberships(in: text).contains { $0.controllers.contains("freezer") && $0.path != "/" }
  }
}
