import CLinux
import CUnwind
import Synchronization

/// Where a task continues after `Task.yield()`.
///
/// A task keeps that address until it awaits something else that could suspend it.
struct YieldPlace: Sendable, Equatable {
  let resumeFunction: UInt64

  /// Finds it with a task of its own, which runs on the calling thread.
  ///
  /// With runtimes before 6.3 a thread of the pool makes the task continue there. Nil if none does so within 100 ms.
  init?() {
    let executor = ProbeExecutor()
    _ = Task(executorPreference: executor) {
      await Task.yield()
      executor.place.store(Self.resumeFunction(of: clinux_current_task()) ?? 0, ordering: .relaxed)
    }
    executor.run(for: 100_000_000)
    let place = executor.place.load(ordering: .relaxed)
    guard cunwind_is_continuation(place) else { return nil }
    resumeFunction = place
  }

  fileprivate static func resumeFunction(of task: UInt64) -> UInt64? {
    OwnProcess().load(task &+ TaskLayout.resumeFunction, as: UInt64.self)
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
  /// False also where that cannot be known. Read through the kernel.
  package func hasYielded(threadPointer: UInt64) -> Bool {
    guard let yield, let task = currentTask.read(threadPointer: threadPointer), isTask(task) else { return false }
    return YieldPlace.resumeFunction(of: task) == yield.resumeFunction
  }
}
