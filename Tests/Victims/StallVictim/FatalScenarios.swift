import Dispatch
import Glibc
import LoopEngine
import StallMonitor
import VictimC

/// Hosts that end, or fork, in a late turn.
@MainActor let fatalScenarios: [String: () -> Void] = [
  "segfault-in-stall": {
    once {
      block()
      victim_segfault()
    }
  },
  "abort-in-stall": {
    once {
      block()
      abort()
    }
  },
  "bare-exit-in-stall": {
    once {
      block()
      exit(0)
    }
  },
  // As soon as the stalled turn has ended: the first event of the next turn that an observer other
  // than the monitor's sees.
  "exit-after-stall": {
    let loop = Loop.main
    loop.add(Loop.Observer(.beforeSources, order: .max) { _, _ in if hasStalled { _exit(0) } }, to: .common)
    once {
      block()
      hasStalled = true
    }
  },
  "stall-then-idle": {
    Loop.main.after(20) { block() }
    Loop.main.after(60_000) {}
    Loop.main.run()
  },
  "stalls-twice": {
    let loop = Loop.main
    for delay in [20, 40 + 2 * milliseconds] { loop.after(delay) { block() } }
    loop.after(60 + 4 * milliseconds) { loop.stop() }
    loop.run()
  },
  // The process is killed in one of them, or between two.
  "stalls": {
    Loop.main.after(5, repeats: true) { blockByComputing() }
    Loop.main.run()
  },
  "child-exits-in-stall": { inStall(child: { _exit(7) }) },
  "child-is-killed-in-stall": { inStall(child: { kill(getpid(), SIGKILL) }) },
  "child-executes-in-stall": { inStall(child: { victim_exec("/bin/true", nil) }) },
  // The same service, started while its parent stalls.
  "child-is-the-service": { inStall(child: { victim_exec(CommandLine.arguments[0], "never-runs") }) },
  "child-outlives": {
    once {
      block()
      let child = victim_fork()
      if child == 0 {
        // Nobody who reads the parent's output waits for it.
        for descriptor in 0..<256 { close(Int32(descriptor)) }
        sleep(20)
        _exit(0)
      }
      say("child=\(child)")
      for _ in 0..<100 { block() }
    }
  },
  "child-goes-on": {
    inStall {
      monitor.pause()
      monitor.resume()
      monitor.expectSlow {}
      let loop = Loop.main
      let mode: Loop.Mode = "child"
      loop.after(5, repeats: true, in: mode) { spin(Double(milliseconds)) }
      let end = Loop.Instant.now.advanced(by: .milliseconds(2 * milliseconds))
      while Loop.Instant.now < end { _ = loop.run(mode: mode, before: end) }
      monitor.stop()
      say("child-watching=\(monitor.isWatching) child-wakeups=\(monitor.watchdogWakeUps)")
      _exit(9)
    }
  },
  "child-watches-itself": {
    inStall {
      let own = try? StallMonitor.start()
      let loop = Loop.main
      let mode: Loop.Mode = "child"
      loop.after(5, in: mode) { block() }
      _ = loop.run(mode: mode, before: .now.advanced(by: .milliseconds(2 * milliseconds)))
      own?.stop()
      say("child=\(getpid())")
      _exit(own?.isWatching == false ? 9 : 8)
    }
  },
  // The child of a thread that has no loop: its main loop comes into being after its monitor.
  "child-of-thread-watches-itself": {
    let forks = DispatchSemaphore(value: 0)
    startThread("forker") {
      let process = victim_fork()
      if process == 0 {
        let own = try? StallMonitor.start()
        let loop = Loop.main
        loop.after(5) { block() }
        loop.run(for: .milliseconds(2 * milliseconds))
        own?.stop()
        say("child=\(getpid())")
        _exit(own?.isWatching == false ? 9 : 8)
      }
      say("child-ended=\(victim_wait(process))")
      forks.signal()
    }
    forks.wait()
  },
]

nonisolated(unsafe) private var hasStalled = false  // On the main thread alone.

/// A thread that sleeps can be captured on the busiest machine.
private func block() { _ = blockBySleeping() }

/// Forks in the middle of a late turn, and prints how the child ended.
private func inStall(child: @escaping @Sendable () -> Void) {
  once {
    block()
    let process = victim_fork()
    if process == 0 {
      child()
      _exit(99)
    }
    say("child-ended=\(victim_wait(process))")
    block()
  }
}
