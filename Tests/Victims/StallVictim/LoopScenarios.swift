import Dispatch
import Glibc
import LoopEngine
import StallMonitor
import Synchronization
import VictimC

/// Hosts with several loops.
@MainActor let loopScenarios: [String: () -> Void] = [
  // Three that stall in the same way at the same time, the last without being late.
  "loops": {
    let threads = ["alpha", "beta", "patient"].map { PermanentThread(name: $0) }
    for (thread, name) in zip(threads, ["alpha", "beta", "patient"]) {
      watchLoop(of: thread, name: name, threshold: name == "patient" ? .seconds(30) : .milliseconds(100))
    }
    Loop.main.after(200, repeats: true) {}
    // The watches begin with the loops' next turn.
    usleep(300_000)
    // What is due next is far away; the quiet ones are watched nevertheless.
    threads[2].perform {}
    usleep(200_000)
    for thread in threads { thread.perform { blockByComputing() } }
    for loop in monitor.watchedLoops {
      let isKnown = Loop.main.threadID == loop.threadID || threads.contains { $0.loop?.threadID == loop.threadID }
      say(
        "\(loop.name)_kind=\(loop.kind?.rawValue ?? "unknown") \(loop.name)_thread=\(isKnown) \(loop.name)_threshold=\(loop.threshold)"
      )
    }
    Loop.main.after(2 * milliseconds + 500) { Loop.main.stop() }
    Loop.main.run()
    for thread in threads { thread.stop() }
  },
  // The main loop is there before the monitor.
  "main-loop-first": { once { blockByComputing() } },
  // Another thread asks for the main loop first.
  "main-loop-made-elsewhere": {
    startThread("maker") {
      let loop = Loop.main
      loop.after(50) { blockByComputing() }
      loop.after(100) { loop.stop() }
    }
    usleep(100_000)
    Loop.main.after(60_000) {}
    Loop.main.run()
  },
  // The monitor is stopped before there is a main loop, and started again after it.
  "main-loop-between": {
    monitor.stop()
    once { blockByComputing() }
    guard let other = try? StallMonitor.start() else { return say("no second monitor") }
    once { victim_c_compute(UInt32(milliseconds)) }
    other.stop()
  },
  // Tasks that an executor of the service's passes on: short ones beside a busy loop, and one that blocks after a time in which nothing
  // happens.
  "passed-on": {
    let loop = Loop.main
    let timer = loop.perform(every: .milliseconds(20)) { _ in }
    Task.detached(executorPreference: PassingExecutor()) {
      for _ in 0..<28 {
        spin(50)
        await Task.yield()
      }
    }
    loop.after(1900) { timer.invalidate() }
    startThread("starter") {
      usleep(2_500_000)
      Task.detached(executorPreference: PassingExecutor()) { _ = blockBySleeping() }
    }
    loop.after(3000 + milliseconds) { loop.stop() }
    loop.run()
  },
  // One turn of many short callouts; `milliseconds` is what all of them take.
  "many-callouts": {
    let loop = Loop.main
    loop.after(20) {
      for _ in 0..<milliseconds / 3 { loop.perform { spin(3) } }
      loop.perform { loop.stop() }
    }
    loop.run()
  },
  // Many short callouts around one that takes as long.
  "one-of-many-callouts": {
    let loop = Loop.main
    loop.after(20) {
      for _ in 0..<50 { loop.perform { spin(1) } }
      loop.perform { _ = blockBySleeping() }
      for _ in 0..<50 { loop.perform { spin(1) } }
      loop.perform { loop.stop() }
    }
    loop.run()
  },
  // A host that closes sockets it does not know, and opens its own by the same numbers.
  "closes-sockets": { loseSockets { other, _ in close(other) } },
  // At once, so that nobody sees a closed one.
  "replaces-sockets": { loseSockets { dup2($1, $0) } },
  // The work comes right after the call that watches, and so in the turn in which the watch begins.
  "watched-then-blocked": {
    let thread = PermanentThread(name: "alpha")
    watchLoop(of: thread, name: "alpha", threshold: .milliseconds(100))
    thread.perform { blockByComputing() }
    usleep(UInt32(milliseconds + 300) * 1000)
    thread.stop()
  },
  "blocked-then-watched": {
    let thread = PermanentThread(name: "alpha")
    try? thread.start()
    thread.perform { blockByComputing() }
    usleep(200_000)
    watchLoop(of: thread, name: "alpha", threshold: .milliseconds(100))
    usleep(UInt32(milliseconds + 300) * 1000)
    thread.stop()
  },
  "started-beside-a-turn": {
    monitor.stop()
    let other = Mutex<StallMonitor?>(nil)
    startThread("starter") {
      usleep(200_000)
      other.withLock { $0 = try? StallMonitor.start() }
    }
    once { blockByComputing() }
    other.withLock { $0 }?.stop()
  },
  "started-in-a-turn": {
    monitor.stop()
    let other = Mutex<StallMonitor?>(nil)
    once {
      other.withLock { $0 = try? StallMonitor.start() }
      blockByComputing()
    }
    other.withLock { $0 }?.stop()
  },
  // A thread that is busy before and after the runs of its loop, and one whose loop waits.
  "watched-without-turns": {
    let thread = PermanentThread(name: "resting")
    watchLoop(of: thread, name: "resting", threshold: .milliseconds(100))
    let isOver = DispatchSemaphore(value: 0)
    startThread("busy") {
      _ = try? monitor.watch(Loop.current, name: "busy", threshold: .milliseconds(100))
      blockByComputing()
      Loop.current.perform {}
      Loop.current.run(mode: .default, for: .zero)
      blockByComputing()
      isOver.signal()
    }
    blockByComputing()
    say("watched=\(monitor.watchedLoops.count { ["main", "resting", "busy"].contains($0.name) })")
    isOver.wait()
    thread.stop()
  },
  // By another thread, during a stall.
  "loop-stopped": {
    let thread = PermanentThread(name: "alpha")
    let watch = watchLoop(of: thread, name: "alpha", threshold: .milliseconds(100))
    usleep(50_000)
    thread.perform { spin(800) }
    usleep(400_000)
    watch?.stop()
    watch?.stop()
    say("watching=\(watch?.isWatching ?? true)")
    thread.stop()
  },
  "loop-ends": {
    var watches: [LoopWatch] = []
    for _ in 0..<20 {
      let thread = PermanentThread(name: "alpha")
      if let watch = watchLoop(of: thread, name: "alpha", threshold: .milliseconds(100)) { watches.append(watch) }
      thread.perform { spin(5) }
      thread.stop()
      waitUntil { !(watches.last?.isWatching ?? false) }
    }
    usleep(300_000)
    say("made=\(watches.count) watching=\(watches.count { $0.isWatching })")
  },
  "loops-idle": {
    // Until the main thread's loop has turned once, it is searched for, even if another thread
    // serves the main queue.
    Loop.main.perform {}
    Loop.main.run(mode: .default, for: .zero)
    let threads = (0..<5).map { PermanentThread(name: "idle-\($0)") }
    for (index, thread) in threads.enumerated() {
      watchLoop(of: thread, name: "idle-\(index)", threshold: .milliseconds(50))
    }
    usleep(700_000)
    let before = monitor.watchdogWakeUps
    usleep(1_000_000)
    say("wakeups=\(monitor.watchdogWakeUps - before)")
    for thread in threads { thread.stop() }
  },
  "loop-errors": {
    let thread = PermanentThread(name: "alpha")
    try? thread.start()
    guard let loop = thread.loop else { return }
    complain("main") { try monitor.watch(Loop.main, name: "again") }
    complain("main_name") { try monitor.watch(loop, name: "main") }
    complain("empty") { try monitor.watch(loop, name: "") }
    complain("long") { try monitor.watch(loop, name: String(repeating: "x", count: 65)) }
    complain("threshold") { try monitor.watch(loop, name: "alpha", threshold: .microseconds(10)) }
    complain("good") { try monitor.watch(loop, name: "alpha") }
    complain("twice") { try monitor.watch(loop, name: "beta") }
    complain("foundation") { try monitor.watchCurrentCoreFoundationRunLoop(name: "beta") }
    thread.stop()
    waitUntil { loop.hasEnded }
    complain("ended") { try monitor.watch(loop, name: "late") }
    complain("ended_again") { try monitor.watch(loop, name: "late") }
    monitor.stop()
  },
]

@discardableResult
private func watchLoop(of thread: PermanentThread, name: String, threshold: Duration) -> LoopWatch? {
  do {
    try thread.start()
    guard let loop = thread.loop else { return nil }
    return try monitor.watch(loop, name: name, threshold: threshold)
  } catch {
    say("error=\(error)")
    return nil
  }
}

private func complain(_ what: String, _ body: () throws -> Void) {
  do {
    try body()
    say("\(what)=none")
  } catch {
    say("\(what)=thrown \(what): \(error)")
  }
}

/// An executor of the service's own, which passes its jobs on.
private final class PassingExecutor: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) { globalConcurrentExecutor.enqueue(UnownedJob(job)) }
}

private func waitUntil(_ condition: () -> Bool) {
  for _ in 0..<1000 where !condition() { usleep(5000) }
}

/// Closes all sockets that are not the host's own, with a stall before and one after it.
private func loseSockets(_ lose: @escaping @Sendable (_ other: Int32, _ own: Int32) -> Void) {
  Loop.main.after(50) { blockByComputing() }
  Loop.main.after(milliseconds + 300) {
    let others = (Int32(3)..<256).filter {
      var status = stat()
      return fstat($0, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
    }
    var ends: [Int32] = []
    func makeOwn() {
      var pair: [Int32] = [0, 0]
      socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair)
      ends += pair
    }
    makeOwn()
    for other in others { lose(other, ends[0]) }
    for _ in 0..<7 { makeOwn() }
    let own = ends
    blockByComputing()
    Loop.main.after(300) {
      var byte: UInt8 = 0
      let strange = own.count { recv($0, &byte, 1, Int32(MSG_DONTWAIT)) >= 0 }
      say("strange=\(strange) open=\(own.count { fcntl($0, F_GETFD) >= 0 })")
      Loop.main.stop()
    }
  }
  Loop.main.run()
}
