import CLinux
import PlatformLibc
import StallCapture
import StallDetection

/// Reads what shows that the whole process was kept from running: stopped by a signal, frozen with its control group, held by a debugger, or
/// paused with its machine.
///
/// ``FreezeEvidence`` judges it. Belongs to the watchdog's thread.
final class FreezeDetector: FreezeCounter {
  private let watchdog: ThreadProbe
  private let groups = ProcFile(ProcessHandle.own.controlGroups)

  /// Call it on the watchdog's thread.
  init() { watchdog = ThreadProbe(thread: clinux_gettid(), of: .own) }

  func counts() -> FreezeEvidence.Counts {
    var counts = FreezeEvidence.Counts()
    clinux_thread_waits(&counts.sleeps, &counts.diskFaults, &counts.faults)
    counts.runDelay = watchdog.schedule()?.runDelayNanoseconds ?? 0
    // In this order: of a fork that ends in between, neither would be known.
    counts.isForking = clinux_fork_is_in_progress()
    counts.forking = clinux_fork_time()
    // The kernel adds it up over all threads, in some 20 ns for each.
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    counts.processorTime = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    return counts
  }

  /// The root group cannot be frozen.
  var isInFreezerGroup: Bool {
    let text = groups?.parse(capacity: 8192) { String(decoding: $0, as: UTF8.self) } ?? ""
    return ControlGroups.memberships(in: text).contains { $0.controllers.contains("freezer") && $0.path != "/" }
  }
}

/// What counts the evidence of freezes; see ``FreezeEvidence``.
protocol FreezeCounter {
  func counts() -> FreezeEvidence.Counts

  /// Whether the process is in a group of a version 1 freezer.
  var isInFreezerGroup: Bool { get }
}

extension FreezeCounter {
  /// Judges a wait that has just ended so late, which lasted so long; nil if the process was not frozen.
  ///
  /// `before` is what had been counted when it began. Nothing is counted of a wait that ended in time.
  func freeze(since before: FreezeEvidence.Counts, lateness: UInt64, of wait: UInt64) -> FreezeEvidence.Freeze? {
    guard lateness > FreezeEvidence.limit else { return nil }
    return FreezeEvidence(lateness: lateness, of: wait, from: before, to: counts()).freeze { isInFreezerGroup }
  }
}
