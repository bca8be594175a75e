/// A loop runs an actor: return it from the actor's `unownedExecutor`.
///
/// Jobs are blocks in the common modes. The actor must not outlive the loop's thread: a job for a loop that has ended
/// stops the program, as it could neither run in isolation nor be dropped without leaving its task hanging.
extension Loop: SerialExecutor {
  /// Runs a job on the loop's thread.
  ///
  /// The runtime calls this.
  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let accepted = perform(name: "actor job") { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    if !accepted {
      fatalError("an actor ran on a loop whose thread has exited; keep the loop's thread alive as long as the actor")
    }
  }

  /// The loop as the runtime refers to it.
  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: self)
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
