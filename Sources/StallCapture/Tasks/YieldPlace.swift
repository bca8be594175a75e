import CLinux
import CUnwind
import Synchronization

/// Where a task continues after `Task.yield()`.
///
/// A task keeps that address until it awaits something else that could suspend it.
final class YieldPlace: Sendable {
  // 0 until it is known.
  private let found = Atomic<UInt64>(0)

  static let longestSearch: UInt64 = 100_000_000

  var resumeFunction: UInt64? {
    let place = found.load(ordering: .relaxed)
    return place == 0 ? nil : place
  }

  /// Finds it with a task of its own, which runs on the calling thread.
  ///
  /// With runtimes before 6.3, the calling thread enqueues a job on the pool, which may start a thread with the caller's descriptor table;
  /// that thread makes the task continue. It waits for ``longestSearch`` at most.
  func find(in process: ProcessHandle) {
    guard resumeFunction == nil else { return }
    let executor = ProbeExecutor()
    _ = Task(executorPreference: executor) {
      await Task.yield()
      executor.place.store(Self.resumeFunction(of: clinux_current_task(), in: process) ?? 0, ordering: .relaxed)
    }
    executor.run(for: Self.longestSearch)
    let place = executor.place.load(ordering: .relaxed)
    if cunwind_is_continuation(process.cunwind, place) { found.store(place, ordering: .relaxed) }
  }

  static func resumeFunction(of task: UInt64, in process: ProcessHandle) -> UInt64? {
    process.load(task &+ TaskLayout.resumeFunction, as: UInt64.self)
  }

  /// An executor that runs one task on the thread that asks for it.
  private final class ProbeExecutor: TaskExecutor {
    /// Where the task has continued, 0 before.
    let place = Atomic<UInt64>(0)
    // Nil once nobody waits for the task.
    private let jobs = Mutex<[UnownedJob]?>([])

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      let isQueued = jobs.withLock { $0?.append(job) } != nil
      if !isQueued { job.runSynchronously(on: asUnownedTaskExecutor()) }
    }

    /// Runs jobs until the place is known, for so many nanoseconds at most.
    func run(for limit: UInt64) {
      let end = MonotonicClock.now() + limit
      while place.load(ordering: .relaxed) == 0, MonotonicClock.now() < end {
        if !runJobs(leaving: []) { usleep(100) }
      }
      _ = runJobs(leaving: nil)
    }

    /// Runs what is queued; false if nothing was.
    private func runJobs(leaving rest: [UnownedJob]?) -> Bool {
      let queued = jobs.withLock { jobs in
        defer { jobs = rest }
        return jobs ?? []
      }
      for job in queued { job.runSynchronously(on: asUnownedTaskExecutor()) }
      return !queued.isEmpty
    }
  }
}

extension TaskLayout {
  /// Whether the task that a thread runs has awaited `Task.yield()` last, of all that could have suspended it.
  ///
  /// True also if it is not known where tasks continue then; false if it is not known what the thread runs. Read through the kernel.
  package func hasYielded(threadPointer: UInt64) -> Bool {
    guard let task = currentTask(threadPointer: threadPointer), isTask(task) else { return false }
    guard let place = yieldPlace.resumeFunction else { return true }
    return YieldPlace.resumeFunction(of: task, in: process) == place
  }

  /// Whether ``findYield()`` has to be called for ``hasYielded(threadPointer:)``, on a thread with the service's descriptor table.
  package static var needsServicesThreadForYield: Bool {
    #if compiler(>=6.3)
    false
    #else
    true
    #endif
  }

  /// Finds where tasks continue after a yield; takes ``longestSearchForYield`` at most.
  package func findYield() { yieldPlace.find(in: process) }

  /// In nanoseconds.
  package static var longestSearchForYield: UInt64 { YieldPlace.longestSearch }
}
