import StallReport

/// Decides whether jobs are stamped or the pool's threads are scanned.
///
/// Belongs to the watchdog's thread.
final class TaskPoolFallback: @unchecked Sendable {  // Used by the watchdog alone.
  // Nil once its jobs are not stamped.
  private var pool: TaskPool?
  private let workers: WorkerScan

  /// Scans from the beginning if there is no `pool`.
  init(_ pool: TaskPool?, _ watch: TaskPool.Watch) {
    self.pool = pool
    workers = WorkerScan(watch)
  }

  /// Whether tasks of the default priority wait for a thread, as far as that is known; true if it is not.
  var hasWaitingTasks: Bool {
    guard let pool else { return true }
    if pool.isHooked || !pool.isWatching { return TaskPool.hasWaitingJobs(of: .medium) }
    Diagnostics.say(TaskPool.note(.hookWasReplaced))
    self.pool = nil
    return true
  }

  /// Watches the pool's threads where jobs are not stamped.
  func scan() { if pool == nil { workers.scan() } }
}
