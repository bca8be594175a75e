import Dispatch
import Glibc
import StallMonitor
import Synchronization
import VictimC

// A service whose work is done by tasks of Swift concurrency, as requests are in today's servers. It is judged from outside by its report
// lines.
//
//   TaskVictim SCENARIO [MILLISECONDS] [before | after | around | without-perf]
//
// With `before` or `after` it sets a hook of its own for the runtime's jobs, before or after the monitor starts. With `around`, the
// monitor's hook has an executor of the service's behind it. With `without-perf`, a filter refuses perf events, as container engines do.

@main
struct TaskVictim {
  static func main() async throws {
    let arguments = CommandLine.arguments
    let milliseconds = arguments.count > 2 ? Int(arguments[2]) ?? 900 : 900
    let hook = arguments.count > 3 ? arguments[3] : ""
    if hook == "before" { victim_take_task_hook() }
    if hook == "without-perf", !victim_refuse_perf_events() { exit(2) }
    let monitor = try StallMonitor.start()
    if hook == "after" { victim_take_task_hook() }
    if hook == "around" { victim_replace_global_executor() }
    say("watching=\(monitor.isWatching)")
    guard let scenario = scenarios[arguments.count > 1 ? arguments[1] : ""] else {
      say("scenarios: " + scenarios.keys.sorted().joined(separator: " "))
      exit(2)
    }
    await scenario(milliseconds)
    // Not on a thread of the pool: it waits for the watchdog.
    monitor.stop()
  }
}

let scenarios: [String: @Sendable (Int) async -> Void] = [
  "blocked": { milliseconds in await onThePool { await route(milliseconds) } },
  "computing": { milliseconds in await onThePool { await calculate(milliseconds) } },
  "background": { milliseconds in await onThePool(priority: .background) { await calculate(milliseconds) } },
  "high": { milliseconds in await onThePool(priority: .high) { await calculate(milliseconds) } },
  "forked": { milliseconds in
    // The child has its parent's hook and queues, and none of its threads.
    await onThePool {}
    let child = victim_fork()
    if child == 0 {
      let own = try? StallMonitor.start()
      usleep(useconds_t(milliseconds * 1000))
      own?.stop()
      _exit(0)
    }
    waitpid(child, nil, 0)
  },
  "restarted-in-a-job": { milliseconds in
    await onThePool {
      StallMonitor.current?.stop()
      let second = try? StallMonitor.start()
      await work(milliseconds: milliseconds)
      second?.stop()
    }
  },
  "expected": { milliseconds in
    // On a thread that the monitor does not know yet, and on another one.
    await StallMonitor.current?.expectSlow(on: "task-pool") { await onThePool { await route(milliseconds) } }
    await StallMonitor.current?.expectSlow(on: "task-pool") {
      await onThePool(priority: .high) { await route(milliseconds) }
    }
    await onThePool { await route(milliseconds) }
  },
  "named": { milliseconds in
    await Task.detached(name: "order 4711") { await route(milliseconds) }.value
  },
  "group": { milliseconds in
    await onThePool {
      await withTaskGroup(of: Void.self) { group in
        for number in 0..<4 { group.addTask { await work(milliseconds: number == 2 ? milliseconds : 1) } }
      }
    }
  },
  "async-let": { milliseconds in
    await onThePool {
      async let slow: Void = work(milliseconds: milliseconds)
      async let fast: Void = work(milliseconds: 1)
      _ = await (slow, fast)
    }
  },
  "handed-on": { milliseconds in
    await withTaskExecutorPreference(PassingExecutor()) { await route(milliseconds) }
  },
  "on-the-global-executor": { milliseconds in
    // A task of its own: one that only continues with this preference stays on its thread, where the hook has put it.
    await Task(executorPreference: globalConcurrentExecutor) { await work(milliseconds: milliseconds) }.value
  },
  "short-jobs": { milliseconds in await drain(count: milliseconds, long: nil) },
  "short-jobs-and-a-long-one": { milliseconds in await drain(count: 200, long: milliseconds) },
  "soon-after-the-first": { milliseconds in
    await onThePool { await work(milliseconds: 4) }
    await onThePool { await route(milliseconds) }
  },
  "late-on-a-busy-actor": { milliseconds in
    for _ in 0..<6 { await hold(Counter(), first: 20, second: milliseconds) }
  },
  "pieces-on-an-actor": { milliseconds in await takeTurns(milliseconds) },
  "pieces-in-turns": { milliseconds in await passOn(milliseconds) },
  "actor-that-starts-tasks": { milliseconds in await startTasks(milliseconds) },
  "yields": { milliseconds in await onThePool { await computeAndYield(milliseconds) } },
  "yields-on-an-actor": { milliseconds in await onThePool { await Counter().computeAndYield(milliseconds) } },
  "blocked-after-a-yield": { milliseconds in
    await onThePool {
      await Task.yield()
      await work(milliseconds: milliseconds)
    }
  },
  "computing-after-yields": { milliseconds in
    await onThePool {
      await computeAndYield(400)
      await calculate(milliseconds)
      await computeAndYield(400)
    }
  },
  "hardly-a-stall-on-an-actor": { milliseconds in await holdAmongShortJobs(milliseconds) },
  "deinits-on-an-actor": { milliseconds in await releaseOnAnActor(milliseconds) },
  "yield-storm": { milliseconds in
    await onThePool { await compete(count: 4) { await yield(milliseconds) } }
  },
  "all-blocked": { milliseconds in await blockAll(milliseconds) },
  "all-blocked-by-dispatch": { milliseconds in await blockAllByDispatch(.global(), milliseconds) },
  "blocked-by-other-dispatch": { milliseconds in await blockAllByDispatch(.global(qos: .utility), milliseconds) },
  "end-after-all-blocked": { milliseconds in
    // A group takes the threads, and the task behind it ends the process as soon as it has one.
    let threads = sysconf(Int32(_SC_NPROCESSORS_ONLN))
    for _ in 0..<threads { Task.detached { blockAThread(milliseconds) } }
    usleep(50_000)
    await onThePool { _exit(0) }
  },
  "end-after-an-actors-stall": { milliseconds in
    // In one job of the actor: a task that lets the others queue, one that stalls, and one that ends the process.
    let counter = Counter()
    Task.detached { await counter.hold(60) }
    usleep(20_000)
    Task.detached { await counter.hold(milliseconds) }
    usleep(20_000)
    await Task.detached { await counter.endProcess() }.value
  },
  "descriptors": { _ in
    let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
    // The monitor's tests of the runtime are over by then.
    usleep(300_000)
    let missing = await withTaskGroup(of: Int.self) { group in
      for _ in 0..<200 {
        group.addTask {
          usleep(2000)
          return fcntl(descriptor, F_GETFD) < 0 ? 1 : 0
        }
      }
      return await group.reduce(0, +)
    }
    say("missing=\(missing)")
  },
  "short-sleeps": { milliseconds in
    let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
    await onThePool { while nanoseconds() < end { try? await Task.sleep(for: .microseconds(200)) } }
  },
  "many-blocked": { milliseconds in await blockMany(milliseconds) },
  "many-blocked-on-the-global-executor": { milliseconds in
    await blockMany(milliseconds, besideThem: globalConcurrentExecutor)
  },
  "queues": { _ in
    for priority in [TaskPriority.background, .medium, .high] {
      var labels: Set<String> = []
      for _ in 0..<20 { labels.insert(await Task.detached(priority: priority) { currentQueue() }.value) }
      say("\(priority)=\(labels.sorted().joined(separator: ","))")
    }
  },
  "lock": { milliseconds in await waitForALock(milliseconds) },
  "idle": { milliseconds in
    await onThePool { await work(milliseconds: 1) }
    try? await Task.sleep(for: .milliseconds(700))
    let before = switches()
    try? await Task.sleep(for: .milliseconds(milliseconds))
    say("switches=\(switches() - before)")
  },
  "sleeps": { _ in await sleepExactly() },
  "begun-at-once": { milliseconds in
    await Task.detached(name: "outer") {
      let inner = Task.immediate(name: "inner") { await work(milliseconds: milliseconds) }
      _ = inner
    }.value
  },
  "escalated": { milliseconds in
    let task = Task.detached(priority: .background) {
      // The task is running when its priority rises.
      withUnsafeCurrentTask { $0?.escalatePriority(to: .high) }
      await calculate(milliseconds)
    }
    await task.value
  },
  "signals": { milliseconds in
    // Long enough for the monitor to have used the queues first.
    usleep(UInt32(milliseconds) * 1000)
    for priority in [TaskPriority.background, .utility, .medium, .high] {
      await onThePool(priority: priority) { sayBlockedSignals("priority\(priority.rawValue)") }
    }
    await MainActor.run { sayBlockedSignals("main") }
  },
]

// MARK: The service

@inline(never)
func route(_ milliseconds: Int) async {
  await handle(milliseconds)
  say("routed=true")
}

@inline(never)
func handle(_ milliseconds: Int) async {
  let loaded = await Store().load(milliseconds)
  say("loaded=\(loaded)")
}

actor Store {
  @inline(never)
  func load(_ milliseconds: Int) -> Int {
    usleep(UInt32(milliseconds) * 1000)
    return milliseconds
  }
}

@inline(never)
func calculate(_ milliseconds: Int) async { say("count=\(compute(milliseconds: milliseconds))") }

func sayBlockedSignals(_ name: String) {
  var blocked = sigset_t()
  pthread_sigmask(SIG_SETMASK, nil, &blocked)
  say("\(name)=\((1...64).filter { sigismember(&blocked, Int32($0)) == 1 }.map(String.init).joined(separator: ","))")
}

@inline(never)
func work(milliseconds: Int) async { usleep(UInt32(milliseconds) * 1000) }

@inline(never)
func compute(milliseconds: Int) -> Int {
  var count = 0
  let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
  while nanoseconds() < end { count += 1 }
  return count
}

/// An executor of the service's own that hands its jobs on.
final class PassingExecutor: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    globalConcurrentExecutor.enqueue(job)
  }
}

// MARK: An actor with a queue

actor Counter {
  var count = 0
  /// In milliseconds.
  var longestHold = 0

  @inline(never)
  func countShortly() { count += compute(milliseconds: 1) > 0 ? 1 : 0 }

  func endProcess() { if count >= 0 { _exit(0) } }

  /// For 25 µs.
  func countBriefly() {
    let end = nanoseconds() + 25_000
    while nanoseconds() < end { count += 1 }
  }

  @inline(never)
  func hold(_ milliseconds: Int) {
    let begin = nanoseconds()
    usleep(UInt32(milliseconds) * 1000)
    longestHold = max(longestHold, Int((nanoseconds() - begin) / 1_000_000))
  }
}

extension Counter {
  func computeAndYield(_ milliseconds: Int) async {
    let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
    while nanoseconds() < end {
      count += compute(milliseconds: 10) > 0 ? 1 : 0
      await Task.yield()
    }
  }
}

@inline(never)
func computeAndYield(_ milliseconds: Int) async {
  let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
  var count = 0
  while nanoseconds() < end {
    count += compute(milliseconds: 10)
    await Task.yield()
  }
  say("counted=\(count)")
}

/// Has an actor run thousands of jobs, and one of them hold it; says how long the longest hold took.
func holdAmongShortJobs(_ milliseconds: Int) async {
  let counter = Counter()
  var longest = 0
  for round in 0..<12 {
    await onThePool {
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<4000 + round * 211 { group.addTask { await counter.countBriefly() } }
        group.addTask { await counter.hold(milliseconds) }
        for _ in 0..<2000 { group.addTask { await counter.countBriefly() } }
      }
    }
    longest = max(longest, await counter.longestHold)
    try? await Task.sleep(for: .milliseconds(50))
  }
  say("longest=\(longest)")
}

/// Many that are released while the actor is busy: it runs their deinits one after the other.
func releaseOnAnActor(_ milliseconds: Int) async {
  await onThePool {
    async let held: Void = Releaser.shared.hold(60)
    usleep(20_000)
    for _ in 0..<milliseconds / 3 { _ = Released() }
    await held
    await Releaser.shared.hold(1)
  }
}

@globalActor actor Releaser {
  static let shared = Releaser()
  func hold(_ milliseconds: Int) { usleep(UInt32(milliseconds) * 1000) }
}

@Releaser final class Released {
  isolated deinit { _ = compute(milliseconds: 3) }
  nonisolated init() {}
}

/// Has an actor run many short jobs in one run, since all of them are queued on it while it works; and perhaps one that is long.
func drain(count: Int, long: Int?) async {
  let counter = Counter()
  await onThePool {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await counter.hold(60) }
      for number in 0..<count {
        group.addTask {
          if let long, number == count / 2 { await counter.hold(long) } else { await counter.countShortly() }
        }
      }
    }
  }
  say("counted=\(await counter.count)")
}

/// Two tasks on one actor; the second waits for the first.
func hold(_ counter: Counter, first: Int, second: Int) async {
  await onThePool {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await counter.hold(first) }
      group.addTask {
        await work(milliseconds: first / 4)
        await counter.hold(second)
      }
    }
  }
}

actor Table {
  /// A piece of work that is much shorter than the threshold, in a task that comes back.
  @inline(never)
  func piece() { _ = compute(milliseconds: 15) }
}

/// Two tasks that use an actor in turns: each piece is short, and both are always there.
func takeTurns(_ milliseconds: Int) async {
  let table = Table()
  let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
  await onThePool {
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<2 { group.addTask { while nanoseconds() < end { await table.piece() } } }
    }
  }
}

// MARK: The pool as a whole

@inline(never)
func yield(_ milliseconds: Int) async {
  let end = nanoseconds() + UInt64(milliseconds) * 1_000_000
  while nanoseconds() < end { await Task.yield() }
}

func compete(count: Int, _ body: @escaping @Sendable () async -> Void) async {
  await withTaskGroup(of: Void.self) { group in for _ in 0..<count { group.addTask { await body() } } }
}

@inline(never)
func blockAThread(_ milliseconds: Int) { usleep(UInt32(milliseconds) * 1000) }

/// Blocks each thread of the pool, while another task waits for one.
func blockAll(_ milliseconds: Int) async {
  await onThePool {
    await compete(count: sysconf(Int32(_SC_NPROCESSORS_ONLN)) + 1) { blockAThread(milliseconds) }
  }
}

/// Blocks each thread of a global queue, while a task waits for one, or for none if the queue has other threads.
func blockAllByDispatch(_ queue: DispatchQueue, _ milliseconds: Int) async {
  for _ in 0..<sysconf(Int32(_SC_NPROCESSORS_ONLN)) + 1 { queue.async { blockAThread(milliseconds) } }
  usleep(20_000)
  await onThePool {}
  // The blocks are over.
  usleep(UInt32(milliseconds) * 2000)
}

final class Most: Sendable {
  let value = Atomic<Int>(0)
  let running = Atomic<Int>(0)
}

func currentQueue() -> String { String(cString: victim_current_queue()).replacing(" ", with: "-") }

/// Counts the jobs that have a thread at the same time, of many that block; as many prefer an executor.
func blockMany(_ milliseconds: Int, besideThem executor: (any TaskExecutor)? = nil) async {
  let most = Most()
  let block: @Sendable () -> Void = {
    most.value.max(most.running.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
    blockAThread(milliseconds)
    most.running.subtract(1, ordering: .relaxed)
  }
  await onThePool {
    async let others: Void = withTaskExecutorPreference(executor) {
      if executor != nil { await compete(count: 24, block) }
    }
    await compete(count: 24, block)
    await others
  }
  say("threads=\(most.value.load(ordering: .relaxed))")
}

final class Locked: Sendable {
  let lock = Mutex(0)
  let isHeld = Atomic<Bool>(false)
}

func waitForALock(_ milliseconds: Int) async {
  let locked = Locked()
  await withTaskGroup(of: Void.self) { group in
    group.addTask {
      locked.lock.withLock { _ in
        locked.isHeld.store(true, ordering: .releasing)
        blockAThread(milliseconds)
      }
    }
    group.addTask {
      while !locked.isHeld.load(ordering: .acquiring) { await Task.yield() }
      locked.lock.withLock { $0 += 1 }
    }
  }
}

/// Says by how much the longest of some sleeps came late.
func sleepExactly() async {
  var latest: Int64 = 0
  for _ in 0..<40 {
    let begin = nanoseconds()
    try? await Task.sleep(for: .milliseconds(5))
    latest = max(latest, Int64(nanoseconds() - begin) - 5_000_000)
  }
  say("latest=\(latest)")
}

// MARK: Helpers

/// On a thread of the pool, whatever the caller runs on.
func onThePool(priority: TaskPriority = .medium, _ body: @escaping @Sendable () async -> Void) async {
  await Task.detached(priority: priority) { await body() }.value
}

func nanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

func threads() -> [String] {
  guard let directory = opendir("/proc/self/task") else { return [] }
  defer { closedir(directory) }
  var names: [String] = []
  while let entry = readdir(directory) {
    let name = withUnsafePointer(to: &entry.pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
    }
    if !name.hasPrefix(".") { names.append(name) }
  }
  return names
}

/// How often the monitor's threads have given their processor up by themselves.
func switches() -> Int {
  threads().filter { contents("/proc/self/task/\($0)/comm").hasPrefix("stall-") }.reduce(0) { sum, thread in
    let line = contents("/proc/self/task/\(thread)/status").split(separator: "\n")
      .first { $0.hasPrefix("voluntary_ctxt_switches:") }
    return sum + (line?.split(separator: "\t").last.flatMap { Int($0) } ?? 0)
  }
}

func contents(_ path: String) -> String {
  guard let file = fopen(path, "r") else { return "" }
  defer { fclose(file) }
  var bytes = [UInt8](repeating: 0, count: 4096)
  let count = fread(&bytes, 1, bytes.count, file)
  return String(decoding: bytes[..<count], as: UTF8.self)
}

@inline(never)
func say(_ text: String) {
  let line = "victim: \(text)\n"
  write(2, line, line.utf8.count)
}
