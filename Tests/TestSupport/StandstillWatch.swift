import Foundation
import Synchronization

/// Notices that a processor of this machine did not serve a thread that was ready to run.
///
/// A thread on each processor sleeps for 5 ms repeatedly. If one wakes much later, its processor
/// was away, as a virtual one may be, or had too much to do. The kernel prefers threads that sleep
/// to those that compute, so it is asked about the threads of victims themselves.
final class StandstillWatch: Sendable {
  /// What the tests' margins are made for, in nanoseconds.
  private static let tolerance: Int64 = 30_000_000
  fileprivate static let period = 5_000_000
  /// How often the threads of a process are looked at, in microseconds.
  private static let processPeriod: UInt32 = 50_000

  /// That of the running attempt of a test, if the test may be repeated.
  @TaskLocal static var current: StandstillWatch?

  private let state = State()
  private let forgiven = Atomic<Bool>(false)

  init() {
    for processor in 0..<Int(sysconf(Int32(_SC_NPROCESSORS_CONF))) {
      let context = Unmanaged.passRetained(Watcher(processor: processor, state: state)).toOpaque()
      var thread = pthread_t()
      let result = pthread_create(
        &thread, nil,
        {
          Unmanaged<Watcher>.fromOpaque($0!).takeRetainedValue().run(); return nil
        }, context)
      guard result == 0 else {
        Unmanaged<Watcher>.fromOpaque(context).release()
        continue
      }
      pthread_detach(thread)
    }
  }

  /// The threads end within a period.
  func end() { state.isOver.store(true, ordering: .relaxed) }

  var hasForgiven: Bool { forgiven.load(ordering: .relaxed) }

  /// Returns whether the machine has paused, and remembers that an issue was forgiven for it.
  func forgives() -> Bool {
    if hasForgiven { return true }
    // Who is late this very moment has not said so yet.
    var pause = timespec(tv_sec: 0, tv_nsec: 3 * Self.period)
    nanosleep(&pause, nil)
    guard state.longest.load(ordering: .relaxed) >= Self.tolerance else { return false }
    forgiven.store(true, ordering: .relaxed)
    return true
  }

  /// Watches the threads of a process and of its children until it has ended.
  func watch(process: pid_t) {
    let state = state
    Thread.detachNewThread {
      var before: [String: Int64] = [:]
      while !state.isOver.load(ordering: .relaxed) {
        let delays = Self.runDelays(of: process)
        guard !delays.isEmpty else { return }
        for (thread, delay) in delays { state.longest.max(delay - before[thread, default: 0], ordering: .relaxed) }
        before = delays
        usleep(Self.processPeriod)
      }
    }
  }

  /// How long each of these threads has been ready to run without a processor, in nanoseconds (`proc_pid_schedstat(5)`).
  private static func runDelays(of process: pid_t) -> [String: Int64] {
    let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
    return threads.reduce(into: [:]) { delays, thread in
      func words(_ file: String) -> [Substring] {
        let text = try? String(contentsOfFile: "/proc/\(process)/task/\(thread)/\(file)", encoding: .utf8)
        return text?.split(separator: " ") ?? []
      }
      delays[thread] = words("schedstat").dropFirst().first.flatMap { Int64($0) }
      for child in words("children").compactMap({ pid_t($0) }) { delays.merge(runDelays(of: child)) { $1 } }
    }
  }

  private final class State: Sendable {
    let isOver = Atomic<Bool>(false)
    /// The longest lateness, in nanoseconds.
    let longest = Atomic<Int64>(0)
  }

  private final class Watcher: Sendable {
    private let processor: Int
    private let state: State

    init(processor: Int, state: State) { (self.processor, self.state) = (processor, state) }

    func run() {
      // Hidden from Swift, as all that needs _GNU_SOURCE; the symbol is not.
      typealias SetAffinity = @convention(c) (pid_t, Int, UnsafeRawPointer) -> Int32
      let setAffinity = unsafeBitCast(dlsym(nil, "sched_setaffinity"), to: SetAffinity.self)
      var mask = [UInt64](repeating: 0, count: 16)
      mask[processor / 64 % 16] = 1 << UInt64(processor % 64)
      // One that is offline, or not ours, is not watched.
      guard setAffinity(0, mask.count * 8, mask) == 0 else { return }
      while !state.isOver.load(ordering: .relaxed) {
        let before = Self.now()
        var pause = timespec(tv_sec: 0, tv_nsec: StandstillWatch.period)
        nanosleep(&pause, nil)
        state.longest.max(Self.now() - before - Int64(StandstillWatch.period), ordering: .relaxed)
      }
    }

    private static func now() -> Int64 {
      var time = timespec()
      clock_gettime(CLOCK_MONOTONIC, &time)
      return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
  }
}
