import CLinux
import PlatformLibc

/// The jobs for a loop whose thread has ended; a thread that exists as long as there are any runs them, one at a time.
///
/// A thread and not the global executor: an actor's jobs must not run at the same time, and may block. Where no thread can be made, the one
/// that adds a job runs them: a job that never runs would block its task for good.
final class LateJobs: Sendable {
  private struct State {
    var jobs: [UnownedJob] = []
    /// Whether the loop's thread runs no code of the loop's any more.
    var mayRun = false
    var hasThread = false

    mutating func needsThread() -> Bool {
      guard mayRun, !hasThread, !jobs.isEmpty else { return false }
      hasThread = true
      return true
    }
  }

  private let state = Guarded(State())

  /// Adds a job that the loop has refused or dropped.
  func add(_ job: UnownedJob, of loop: Loop) {
    let isFirst = state.withLock { state in
      state.jobs.append(job)
      return state.needsThread()
    }
    if isFirst { startThread(for: loop) }
  }

  /// Runs the jobs that there are and those to come: the loop is torn down.
  func begin(of loop: Loop) {
    let isFirst = state.withLock { state in
      state.mayRun = true
      return state.needsThread()
    }
    if isFirst { startThread(for: loop) }
  }

  private func next() -> UnownedJob? {
    state.withLock { state in
      if state.jobs.isEmpty {
        state.hasThread = false
        return nil
      }
      return state.jobs.removeFirst()
    }
  }

  private func startThread(for loop: Loop) {
    var thread = clinux_thread_t()
    let reference = Unmanaged.passRetained(loop)
    let result = clinux_thread_create(
      &thread, 0,
      { raw in
        clinux_set_thread_name("late loop jobs")
        let loop = Unmanaged<Loop>.fromOpaque(raw!).takeRetainedValue()
        loop.lateJobs.runAll(of: loop)
        return nil
      }, reference.toOpaque())
    guard result == 0 else {
      runAll(of: loop)
      return reference.release()
    }
    clinux_thread_detach(thread)
  }

  private func runAll(of loop: Loop) {
    while let job = next() { job.run(on: loop) }
  }
}
