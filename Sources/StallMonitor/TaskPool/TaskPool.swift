import CLinux
import PlatformLibc
import StallCapture
import StallDetection
import StallReport
import Synchronization

/// Watches the threads that run Swift concurrency's tasks: each thread is a loop, and each job a turn of it.
///
/// A job is what a task does between two suspensions. The beginning and the end of each are exact: the runtime hands every job of its global
/// executor to a hook (`swift_task_enqueueGlobal_hook`), which puts it onto the runtime's own queue. One for a process.
final class TaskPool: Sendable {
  /// Why the pool's jobs cannot be stamped.
  enum Problem: Error {
    /// The process has a hook of its own, or another monitor has one.
    case hookIsTaken
    /// The process has replaced the hook by one of its own.
    case hookWasReplaced
    /// The Swift runtime has no such hook or jobs of another layout, or there is none in the process.
    case unknownRuntime
    /// The process has an executor of its own in place of the runtime's global one.
    case otherExecutor

    /// Nil of jobs that are stamped.
    init?(_ state: clinux_task_pool_state) {
      switch state {
      case CLINUX_TASK_POOL_HOOKED: return nil
      case CLINUX_TASK_POOL_TAKEN: self = .hookIsTaken
      case CLINUX_TASK_POOL_OTHER_EXECUTOR: self = .otherExecutor
      default: self = .unknownRuntime
      }
    }
  }

  /// What a thread of the pool is watched by.
  struct Watch: Sendable {
    let list: WatchList
    let makePublication: @Sendable () -> LoopPublication
    let suspension: Suspension
    let sentinel: ForkSentinel
    /// How long a job may take, in nanoseconds, and how long one of low priority.
    let threshold: UInt64
    let backgroundThreshold: UInt64
    /// How many threads are watched at most.
    let threadLimit: Int

    /// A thread of the pool, as the watchdog is to watch it.
    func subject(
      _ thread: WatchedLoop.Subject.Thread, publication: LoopPublication, work: any TurnWork,
      heartbeat: (any HeartbeatSource)? = nil
    ) -> WatchedLoop.Subject {
      WatchedLoop.Subject(
        label: .init(name: LoopKind.taskPool.rawValue, kind: { .taskPool }), thread: thread,
        limits: .init(threshold: threshold, suspension: Suspension(within: suspension)), publication: publication,
        heartbeat: heartbeat,
        inspection: .init(noteOnUnseenRun: nil), work: work)
    }
  }

  /// What the hook calls.
  ///
  /// It is kept for good, in a list: a thread may be about to call it when the watch ends, and a checker of leaks would report what nothing
  /// points to.
  private final class Entrance: Sendable {
    private static let latest = Atomic<UInt>(0)
    private let earlier = UnsafeRawPointer(bitPattern: latest.load(ordering: .acquiring)).map {
      Unmanaged<Entrance>.fromOpaque($0).takeUnretainedValue()
    }
    private let pool = Mutex<TaskPool?>(nil)
    private let awaited = Mutex<AwaitedJob?>(nil)
    private let processID = getpid()

    func open(to pool: TaskPool) { self.pool.withLock { $0 = pool } }

    /// Keeps it.
    func enlist() {
      Self.latest.store(UInt(bitPattern: Unmanaged.passRetained(self).toOpaque()), ordering: .releasing)
    }

    func close() {
      pool.withLock { $0 = nil }
      awaited.withLock { $0 = nil }
    }

    /// Has the next job of the default priority end a turn; false if a job is about to do so with the turn before, as the watchdog waits for
    /// no lock.
    func expect(_ job: AwaitedJob) -> Bool { awaited.withLockIfAvailable { $0 = job } != nil }

    /// Ends the turn of the whole pool: the calling thread is about to run a job.
    func jobBegins() {
      guard getpid() == processID, let job = awaited.withLock({ $0.take() }) else { return }
      job.pulse.end(job.turn)
    }

    /// Takes the calling thread, which is about to run its first job.
    func threadBegins() {
      // The child of a fork may have the lock as another thread of its parent's held it.
      if getpid() == processID { pool.withLock { $0 }?.threadBegins() }
    }
  }

  /// A turn of the whole pool, which ends when a job begins.
  private struct AwaitedJob {
    let pulse: Pulse
    let turn: TurnWord
  }

  let watch: Watch
  private let entrance = Entrance()
  private let isEnded = Atomic<Bool>(false)
  private let threadCount = Atomic<Int>(0)
  private let hasReportedLimit = Atomic<Bool>(false)

  private init(_ watch: Watch) { self.watch = watch }

  /// The descriptors with which all threads can be watched that are watched at most.
  static var descriptorsForAllThreads: Int { otherFiles + filesOfAThread * mostThreads }

  private static let mostThreads = 256
  // The watchdog has fewer.
  private static let otherFiles = 200
  // A thread may be scanned, too, for which a job that it runs has files as well; and it has two breakpoints.
  private static let filesOfAThread = 3 * ThreadProbe.fileCount + 2

  /// How many threads can be watched.
  ///
  /// `sharesTable` says that the threads' files are in the service's descriptor table: then the limit is low.
  static func threadLimit(sharesTable: Bool) -> Int {
    if sharesTable { return 4 }
    var limit = rlimit()
    let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    let descriptors = isKnown ? Int(clamping: limit.rlim_cur) : 1024
    return min(max(0, (descriptors - otherFiles) / filesOfAThread), mostThreads)
  }

  /// Watches each thread of the pool from its next job on, until ``end()``.
  ///
  /// A thread costs the watchdog one wake-up when its first job begins, and one when it ends; a job about 40 ns.
  static func start(_ watch: Watch) throws(Problem) -> TaskPool {
    let pool = TaskPool(watch)
    pool.entrance.open(to: pool)
    let state = clinux_task_pool_hook(
      pool.identity,
      { Unmanaged<Entrance>.fromOpaque($0!).takeUnretainedValue().threadBegins() },
      { Unmanaged<Entrance>.fromOpaque($0!).takeUnretainedValue().jobBegins() },
      { scout, priority in
        let address = UInt(bitPattern: scout)
        Task.detached(priority: TaskPriority(rawValue: priority)) {
          clinux_task_scout_arrives(OpaquePointer(bitPattern: address))
        }
      })
    if let problem = Problem(state) {
      pool.entrance.close()
      throw problem
    }
    pool.entrance.enlist()
    return pool
  }

  /// What is logged of a problem.
  static func note(_ problem: Problem) -> String {
    let reason =
      switch problem {
      case .hookIsTaken: "another component has set swift_task_enqueueGlobal_hook"
      case .hookWasReplaced: "another component has replaced swift_task_enqueueGlobal_hook"
      case .unknownRuntime: "this Swift runtime has no swift_task_enqueueGlobal_hook, or another layout of jobs"
      case .otherExecutor: "the process has replaced Swift's global executor"
      }
    return "\(limitsWithoutHook), because \(reason)"
  }

  /// How the watch of a job that the hook does not see differs.
  static var limitsWithoutHook: String {
    #if compiler(>=6.3)
    "blocked tasks are found after one to two thresholds, and tasks that run on CPU only where perf events are permitted"
    #else
    // libdispatch does not name its threads.
    "single tasks are not watched"
    #endif
  }

  /// Ends the watch; jobs that run are let finish.
  func end() {
    guard !isEnded.exchange(true, ordering: .acquiringAndReleasing), watch.sentinel.isInOwnProcess else { return }
    clinux_task_pool_unhook()
    entrance.close()
  }

  /// Why jobs are not stamped any more; nil while they are.
  var problem: Problem? {
    let problem = Problem(clinux_task_pool_state_now())
    return problem == .hookIsTaken ? .hookWasReplaced : problem
  }

  /// Whether the pool is watched in this process.
  var isWatching: Bool { !isEnded.load(ordering: .acquiring) && watch.sentinel.isInOwnProcess }

  /// Distinguishes the threads of this watch from those of an earlier one.
  var identity: UnsafeRawPointer { UnsafeRawPointer(Unmanaged.passUnretained(entrance).toOpaque()) }

  private func threadBegins() {
    guard isWatching else { return }
    guard threadCount.add(1, ordering: .relaxed).newValue <= watch.threadLimit, let place = clinux_task_thread_take()
    else {
      threadCount.subtract(1, ordering: .relaxed)
      if !hasReportedLimit.exchange(true, ordering: .relaxed) {
        let isOfFiles =
          watch.threadLimit < Self.mostThreads && watch.threadLimit == Self.threadLimit(sharesTable: false)
        let reason = isOfFiles ? ": each needs open files, and RLIMIT_NOFILE is too low for more" : ""
        Diagnostics.say("tasks are watched on \(watch.threadLimit) threads; later threads are not watched\(reason)")
      }
      return
    }
    TaskThread(of: self, at: place).begin()
  }

  /// Has the current turn of a pulse end when the next job of the default priority begins.
  ///
  /// False if that cannot be now. A job that has begun before the call returns may have missed it.
  func endTurnAtNextJob(of pulse: Pulse) -> Bool {
    guard entrance.expect(AwaitedJob(pulse: pulse, turn: pulse.word)) else { return false }
    clinux_task_pool_await_job()
    clinux_barrier_on_all_threads()
    return true
  }

  /// Makes space for another thread.
  func threadEnds() { threadCount.subtract(1, ordering: .relaxed) }

  /// Whether jobs of this class wait for a thread now.
  static func hasWaitingJobs(of priority: TaskPriorityClass) -> Bool { clinux_task_pool_waiting(priority.rawValue) > 0 }
}

/// The class of a job's queue: the runtime has one for each of these, with threads of its own.
enum TaskPriorityClass: UInt32, Sendable {
  case background
  case utility
  case medium
  case high
  case interactive

  /// Whether a job of it may take longer than the work of a user who waits.
  var isLow: Bool { self == .background || self == .utility }
}
