/// A loop runs actors and tasks.
///
/// An actor returns it from its `unownedExecutor`; a task names it as `Task(executorPreference: loop)`. All code of the
/// task then runs on the loop, except code that is isolated to an actor with another executor.
///
/// A job is a block in the common modes. No job is lost when the loop's thread ends: the jobs that have not run by
/// then, and all later ones, run on a thread of their own, one at a time, so that actors stay isolated.
extension Loop: SerialExecutor, TaskExecutor {
  /// Runs a job on the loop's thread.
  ///
  /// The runtime calls this.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = LoopJob(UnownedJob(job), for: self)
    // Without a call site: the runtime does not say who made the job. If the loop refuses it, `LoopJob` hands it on.
    _ = enqueue(WorkItem(modes: Mode.common.id, callSite: CallSite(name: "job of an actor or a task")) { job.run() })
  }

  /// The loop as the runtime refers to it for an actor.
  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
  }

  /// The loop as the runtime refers to it for a task.
  public func asUnownedTaskExecutor() -> UnownedTaskExecutor {
    UnownedTaskExecutor(ordinary: self)
  }

  /// Stops the program unless the calling thread is the loop's: what `assumeIsolated` asks.
  public func checkIsolated() {
    precondition(isOwner || published.hasEndedHere, "expected to be on the loop's thread")
  }

  /// Whether the calling thread is the loop's.
  public func isIsolatingCurrentContext() -> Bool? {
    isOwner || published.hasEndedHere
  }
}
