import Glibc
import LoopEngine
import StallMonitor
import Synchronization
import VictimC

/// Services with a life before and after their stall.
let healthScenarios: [String: @Sendable () -> Void] = [
  "stall-in-life": { inLife { _ = blockBySleeping() } },
  "expected-in-life": { inLife { monitor.expectSlow { _ = blockBySleeping() } } },
  "stopped-in-life": {
    // After `stop()`, the service continues.
    inLife {
      monitor.stop()
      say("stopped=\(now())")
      _ = blockBySleeping()
    }
  },
  // A repetition that is counted; and while its summary is far off, another stall after a time without any turn.
  "counted-and-another": {
    let loop = Loop.main
    for delay in [20, 40] { loop.after(delay) { _ = computeFor(600) } }
    loop.after(2000) { _ = blockBySleeping() }
    loop.after(2100) { loop.stop() }
    loop.run()
  },
  // Each with a stall, so that there is something to hand over.
  "restarts": {
    monitor.stop()
    func restart(_ times: Int) -> String {
      for _ in 0..<times {
        guard let other = try? StallMonitor.start() else { return "" }
        once { spin(60) }
        other.stop()
      }
      return "threads:\(lastingThreads()),descriptors:\(entries("/proc/self/fd"))"
    }
    let first = restart(3)
    say("before=\(first)")
    say("after=\(restart(20))")
  },
  "restarted-often": {
    monitor.stop()
    func restart(_ times: Int) { for _ in 0..<times { (try? StallMonitor.start())?.stop() } }
    restart(100)
    let before = victim_resident_kib()
    restart(500)
    say("grown=\(victim_resident_kib() - before)")
  },
  // Two threads fork a process of 1 GB while the loop turns, and two compute.
  "forks": {
    let loop = Loop.main
    let memory = UnsafeMutableRawPointer.allocate(byteCount: 1024 << 20, alignment: 4096)
    madvise(memory, 1024 << 20, MADV_NOHUGEPAGE)
    memset(memory, 1, 1024 << 20)
    let isOver = Atomic<Bool>(false)
    for _ in 0..<2 {
      startThread("forker") {
        while !isOver.load(ordering: .relaxed) {
          let child = victim_fork()
          if child == 0 { _exit(0) }
          waitpid(child, nil, 0)
        }
      }
      startThread("worker") { while !isOver.load(ordering: .relaxed) { spin(10) } }
    }
    loop.after(3, repeats: true) { spin(1) }
    loop.after(milliseconds) { loop.stop() }
    loop.run()
    isOver.store(true, ordering: .relaxed)
  },
  // A thread works on the memory map while the loop turns.
  "beside-a-mapping": {
    let loop = Loop.main
    loop.after(3, repeats: true) { spin(2) }
    startThread("mapper") {
      victim_map_for(2000)
      Loop.main.perform { Loop.main.stop() }
    }
    loop.run()
  },
  "profiled": {
    victim_profile()
    let loop = Loop.main
    // The watchdog is to see the handler, and then to use the processor: for stacks and names.
    for delay in [20, 1500] { loop.after(delay) { _ = computeFor(800) } }
    loop.after(3000) { loop.stop() }
    loop.run()
    say("on-watchdog=\(victim_samples_of_watchdog())")
    say("on-others=\(victim_samples_of_others())")
  },
  "sigwait": {
    // All signals are read by one thread of the service's: no other may get one.
    monitor.stop()
    var all = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, nil)
    guard let other = try? StallMonitor.start() else { return say("not started") }
    let sent = [SIGPROF, SIGTRAP, SIGPIPE]
    for number in sent { kill(getpid(), number) }
    var number: Int32 = 0
    for _ in sent {
      sigwait(&all, &number)
      say("read-\(number)=true")
    }
    other.stop()
  },
  "started-again": {
    let attempt: @Sendable (String) -> Void = { place in
      do {
        let other = try StallMonitor.start()
        say("\(place)=\(other.isWatching)")
        other.stop()
      } catch {
        say("\(place)=\(error)")
      }
    }
    attempt("twice")
    startThread("starter") {
      attempt("elsewhere")
      Loop.main.perform { Loop.main.stop() }
    }
    Loop.main.after(60_000) {}
    Loop.main.run()
    monitor.stop()
    attempt("after-stop")
  },
]

/// The threads that stay: the kernel lists one that was joined for some time yet.
private func lastingThreads() -> Int {
  (0..<25).map { _ in
    usleep(20_000)
    return entries("/proc/self/task")
  }.min()!
}

private func entries(_ path: String) -> Int {
  guard let directory = opendir(path) else { return -1 }
  defer { closedir(directory) }
  var count = 0
  while readdir(directory) != nil { count += 1 }
  return count
}

private func inLife(_ body: @escaping @Sendable () -> Void) {
  let loop = Loop.main
  // Who reads what it says before its stall may be late.
  loop.after(2000) {
    say("from=\(now())")
    body()
    say("to=\(now())")
    loop.after(600) { loop.stop() }
  }
  loop.run()
}

/// What the test asks for in code: `VICTIM_ACTIONS`.
func configure(_ configuration: inout StallMonitorConfiguration) {
  let notified: @Sendable (String) -> @Sendable (StallNotice) -> Void = { name in
    { notice in
      let milliseconds = notice.duration / .milliseconds(1)
      say(
        "\(name)-event=\(notice.event) \(name)-ms=\(milliseconds) \(name)-cause=\(notice.cause) \(name)-reported=\(notice.isReported) \(name)-loop=\(notice.loopName)"
      )
      say("\(name)-id=\(notice.id) \(name)-detail=\(notice.detailFile ?? "none")")
      say("\(name)-culprit=\(notice.culprit?.contains("blockBySleeping()") == true)")
      let line = Array("\(notice.jsonLine)\n".utf8)
      _ = line.withUnsafeBytes { write(9, $0.baseAddress, $0.count) }
    }
  }
  switch variable("VICTIM_ACTIONS") {
  case "": break
  case "calls": configuration.actions = [.call(after: .milliseconds(700), notified("later")), .call(notified("first"))]
  case "detail":
    configuration.actions = [.writeDetailFile(after: .zero), .call(after: .milliseconds(700), notified("later"))]
  case "stop":
    configuration.actions = [
      .call { _ in
        monitor.stop()
        say("stopped-inside=\(!monitor.isWatching)")
      }
    ]
  case "start-while-stopping":
    configuration.actions = [
      .call { _ in
        startThread("stopper") {
          monitor.stop()
          say("started-after=\((try? StallMonitor.start()) != nil)")
        }
        // The stop waits for this closure.
        usleep(300_000)
        do {
          try StallMonitor.start()
          say("started-meanwhile=true")
        } catch {
          say("started-meanwhile=\(error)")
        }
      }
    ]
  case "dump": configuration.actions = [.call { _ in say("threads=\(StallMonitor.captureAllThreads().count > 0)") }]
  case "abort": configuration.actions = [.abort(after: .milliseconds(600))]
  case "early": configuration.actions = [.abort(after: .milliseconds(100))]
  case let other: say("unknown actions: \(other)")
  }
  switch variable("VICTIM_SIGABRT") {
  case "ignored": signal(SIGABRT, SIG_IGN)
  case "blocked":
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, SIGABRT)
    pthread_sigmask(SIG_BLOCK, &set, nil)
  default: break
  }
}
