/// A job of the Swift runtime on its way to a loop.
///
/// If it is released without having run, because the loop's thread has ended, it goes to the loop's ``LateJobs``.
final class LoopJob: @unchecked Sendable {
  // @unchecked: the last reference and the run are the loop's, one after the other.
  private let job: UnownedJob
  private let loop: Loop
  @exclusivity(unchecked) private var hasRun = false

  init(_ job: UnownedJob, for loop: Loop) {
    self.job = job
    self.loop = loop
  }

  deinit {
    if !hasRun { loop.lateJobs.add(job, of: loop) }
  }

  func run() {
    hasRun = true
    job.run(on: loop)
  }
}

extension UnownedJob {
  /// Runs the job as one of the loop's: the runtime does not say whether an actor or a task has asked for the loop.
  func run(on loop: Loop) {
    runSynchronously(isolatedTo: loop.asUnownedSerialExecutor(), taskExecutor: loop.asUnownedTaskExecutor())
  }
}
