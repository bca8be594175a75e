/// What the kernel counted while the watchdog waited, which distinguishes a freeze of the whole process from other delays.
///
/// A watchdog that wakes late is no evidence of that: it may have waited for a processor, its group's quota may have been used up, or a
/// hypervisor may have taken the processor away. The evidence is that the kernel has woken the thread for nothing else than to stop it.
///
/// A fork delays the other threads of its process, too, until it is over: the kernel holds back their page faults while it copies the
/// memory, and the monitor's threads wait for it.
package struct FreezeEvidence: Sendable {
  /// A freeze, as far as one wait shows it; times in nanoseconds.
  package struct Freeze: Equatable, Sendable {
    /// How late the wait ended, without what is explained otherwise.
    package var atLeast: UInt64
    /// The whole wait: when in it the freeze began is not known.
    package var atMost: UInt64

    package init(atLeast: UInt64, atMost: UInt64) { (self.atLeast, self.atMost) = (atLeast, atMost) }
  }

  /// What the kernel and the monitor count, for the watchdog and its process.
  package struct Counts: Equatable, Sendable {
    /// Time in which the watchdog was ready to run and something else had the processor, or its group's quota was used up.
    package var runDelay: UInt64 = 0
    /// How often the thread has gone to sleep.
    package var sleeps = 0
    /// Its page faults that read from disk, and the others.
    package var diskFaults = 0
    package var faults = 0
    /// How long the process's forks have taken, and whether one was in progress.
    package var forking: UInt64 = 0
    package var isForking = false
    /// Processor time of the process.
    package var processorTime: UInt64 = 0

    package init() {}
  }

  /// A smaller lateness is normal scheduling.
  package static let limit: UInt64 = 50_000_000

  /// The shortest freeze that is reported as a stop of the process.
  ///
  /// It must also last as long as the threshold of one of the loops. A freeze that is not reported
  /// is only deducted from the turns.
  package static let worthReporting: UInt64 = 100_000_000

  /// An unexplained delay of this length is always a freeze.
  private static let machinePause: UInt64 = 10_000_000_000

  /// How late the wait ended, and how long it lasted.
  private let lateness: UInt64
  private let wait: UInt64
  private let before: Counts
  private let now: Counts

  /// The evidence of a wait that ended late.
  ///
  /// - Parameters:
  ///   - lateness: How late it ended.
  ///   - wait: How long it lasted.
  ///   - before: What had been counted when it began.
  ///   - now: The same at its end.
  package init(lateness: UInt64, of wait: UInt64, from before: Counts, to now: Counts) {
    (self.lateness, self.wait, self.before, self.now) = (lateness, wait, before, now)
  }

  /// The freeze that it shows; nil if it shows none.
  ///
  /// `isInFreezerGroup` is asked where the counts are not sufficient: whether the process is in a group of a version 1 freezer, which
  /// freezes threads where they sleep, without a trace.
  package func freeze(isInFreezerGroup: () -> Bool) -> Freeze? {
    guard lateness > Self.limit else { return nil }
    let explained = now.runDelay &- before.runDelay
    guard lateness > explained, lateness - explained > Self.limit else { return nil }
    var unexplained = lateness - explained
    if unexplained < Self.machinePause {
      let forking = now.isForking ? unexplained : now.forking &- before.forking
      guard unexplained > forking, unexplained - forking > Self.limit else { return nil }
      unexplained -= forking
      guard isFreeze(unexplained, isInFreezerGroup) else { return nil }
    }
    return Freeze(atLeast: unexplained, atMost: max(wait, lateness))
  }

  private func isFreeze(_ unexplained: UInt64, _ isInFreezerGroup: () -> Bool) -> Bool {
    let sleeps = now.sleeps - before.sleeps
    // A fault sleeps, too: while the page is read from disk, or, once, while a fork or a mapping holds the memory. Such a holder needs a
    // processor for that.
    let faults = now.faults - before.faults
    let hasComputed = now.processorTime &- before.processorTime >= unexplained / 2
    if sleeps > 1 + (hasComputed ? faults : 0), now.diskFaults == before.diskFaults { return true }
    return !hasComputed && isInFreezerGroup()
  }
}
