import CLinux
import PlatformLibc
import StallCapture
import Synchronization

/// A thread with the service's descriptor table that runs jobs for the watchdog: closures,
/// heartbeats, the search for a run loop.
///
/// The watchdog and the output thread have a descriptor table of their own, so they call no code of
/// the service. They leave jobs here. The thread shares the service's table. It exists only while
/// it has users. Thread-safe.
final class Courier: Sendable {
  private static let jobLimit = 256
  private static let longestFarewell: UInt64 = 1_000_000_000

  private struct State {
    var jobs: [@Sendable () -> Void] = []
    var users = 0
    var thread: clinux_thread_t?
    /// ``end()`` waits for the thread.
    var isJoined = false
    /// The number of jobs that were accepted, and of those that are done.
    var accepted: UInt64 = 0
    var done: UInt64 = 0
  }

  private let name: StaticString
  private let processID = getpid()
  private let state = Mutex(State())
  private let semaphore = WakeSemaphore()
  private let hasEnded = WakeSemaphore()

  /// Makes a courier without a thread; `name` is the thread's.
  init(name: StaticString) { self.name = name }

  /// Adds a user, and starts the thread for the first one.
  ///
  /// Call it on a thread of the service's: the courier shares that thread's descriptor table. False
  /// if the thread cannot be created.
  func addUser() -> Bool {
    state.withLock { state in
      if state.thread == nil {
        guard let thread = try? OwnThreads.start(name: name, forService: true, { [self] in run() }) else {
          return false
        }
        state.thread = thread
      }
      state.users += 1
      return true
    }
  }

  /// Removes a user; the thread ends with the last one, after the jobs that it has.
  func removeUser() {
    state.withLock { state in
      if state.users > 0 { state.users -= 1 }
    }
    semaphore.post()
  }

  /// Removes all users, and waits until the thread has ended; for a second at most, and not on that thread itself.
  func end() {
    let thread = state.withLock { state -> clinux_thread_t? in
      state.users = 0
      guard let thread = state.thread, !state.isJoined, thread != clinux_thread_self() else { return nil }
      state.isJoined = true
      return thread
    }
    semaphore.post()
    guard let thread else { return }
    if hasEnded.wait(until: MonotonicClock.now() + Self.longestFarewell) {
      clinux_thread_join(thread)
    } else {
      // A closure of the service's does not return.
      clinux_thread_detach(thread)
    }
  }

  /// Enqueues a job.
  ///
  /// Returns false if there is no thread, or if too many jobs wait.
  @discardableResult
  func post(_ job: @escaping @Sendable () -> Void) -> Bool {
    let isTaken = state.withLock { state in
      guard state.thread != nil, state.users > 0, state.jobs.count < Self.jobLimit else { return false }
      state.jobs.append(job)
      state.accepted += 1
      return true
    }
    if isTaken { semaphore.post() }
    return isTaken
  }

  /// Waits until the jobs that were handed over so far are done, for a second at most.
  ///
  /// On the courier's own thread, and in the child of a fork, it waits for nothing.
  func drain() {
    guard processID == getpid() else { return }
    let (target, thread) = state.withLock { ($0.accepted, $0.thread) }
    guard let thread, thread != clinux_thread_self() else { return }
    let deadline = MonotonicClock.now() + Self.longestFarewell
    while state.withLock({ $0.done < target }), MonotonicClock.now() < deadline { usleep(1000) }
  }

  private func run() {
    while true {
      semaphore.wait()
      AvailableMemory.wait()
      while let job = next() {
        job()
        state.withLock { $0.done += 1 }
      }
      let isOver = state.withLock { state in
        guard state.users == 0, state.jobs.isEmpty else { return false }
        if state.isJoined { hasEnded.post() } else { clinux_thread_detach(clinux_thread_self()) }
        (state.thread, state.isJoined) = (nil, false)
        return true
      }
      if isOver { return }
    }
  }

  private func next() -> (@Sendable () -> Void)? {
    state.withLock { $0.jobs.isEmpty ? nil : $0.jobs.removeFirst() }
  }
}
