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
  /// Nil if the task has yielded to another executor than its own, as with runtimes before 6.3.
  init?() {
    #if compiler(>=6.3)
    let executor = ProbeExecutor()
    _ = Task(executorPreference: executor) { await Task.yield() }
    guard let place = executor.runJobs() else { return nil }
    resumeFunction = place
    #else
    return nil
    #endif
  }

  #if compiler(>=6.3)
  /// An executor that runs the jobs of one task on the thread that asks for it.
  private final class ProbeExecutor: TaskExecutor {
    private let jobs = Mutex<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      jobs.withLock { $0.append(job) }
    }

    /// Where the task continues after the yield; nil if it has not yielded to this executor.
    func runJobs() -> UInt64? {
      var task: UInt64?
      var place: UInt64?
      while let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
        let address = UInt64(UInt(bitPattern: unsafeBitCast(job, to: UnsafeRawPointer.self)))
        if task == nil { task = address }
        // Its first job is the task itself, and the second one resumes it.
        if let task, address != task, place == nil {
          place = OwnProcess().load(task + TaskLayout.resumeFunction, as: UInt64.self)
        }
        job.runSynchronously(on: asUnownedTaskExecutor())
      }
      guard let place, cunwind_is_continuation(place) else { return nil }
      return place
    }
  }
  #endif
}

extension TaskLayout {
  /// Whether the task that a thread runs has awaited `Task.yield()` last, of all that could have suspended it.
  ///
  /// False also where that cannot be known. Read through the kernel.
  package func hasYielded(threadPointer: UInt64) -> Bool {
    guard let yield, let task = currentTask.read(threadPointer: threadPointer), isTask(task) else { return false }
    return OwnProcess().load(task &+ Self.resumeFunction, as: UInt64.self) == yield.resumeFunction
  }
}
