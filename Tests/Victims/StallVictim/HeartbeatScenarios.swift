import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// A loop of the host's own, which nobody can observe: jobs that one thread takes from a pipe.
final class JobLoop: Sendable {
  private let descriptors: (read: Int32, write: Int32)
  private let jobs = Mutex<[@Sendable () -> Void]>([])
  private let heartbeat = Mutex<Heartbeat?>(nil)
  private let watch = Mutex<LoopWatch?>(nil)

  init() {
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    descriptors = (ends[0], ends[1])
  }

  func post(_ job: @escaping @Sendable () -> Void) {
    jobs.withLock { $0.append(job) }
    var byte: UInt8 = 1
    write(descriptors.write, &byte, 1)
  }

  func run() {
    let loop = LoopDescription(name: "jobs") { [self] heartbeat in
      self.heartbeat.withLock { $0 = heartbeat }
      post { heartbeat.acknowledge() }
    }
    let own = try? monitor.watchCurrentThread(as: loop)
    watch.withLock { $0 = own }
    while true {
      var file = pollfd(fd: descriptors.read, events: Int16(POLLIN), revents: 0)
      poll(&file, 1, -1)
      var byte: UInt8 = 0
      read(descriptors.read, &byte, 1)
      jobs.withLock { $0.removeFirst() }()
    }
  }

  /// Acknowledges the last heartbeat; the loop works until it gets one.
  func acknowledgeFromHere() {
    while heartbeat.withLock({ $0 == nil }) {
      post {}
      usleep(10_000)
    }
    heartbeat.withLock { $0 }?.acknowledge()
  }

  var isWatched: Bool { watch.withLock { $0?.isWatching == true } }
  func end() { watch.withLock { $0 }?.stop() }
}

let heartbeatScenarios: [String: @Sendable () -> Void] = [
  "executor-stall": { runJobs { say("errno=\(blockBySleeping())") } },
  "executor-ends": {
    // With a beat on the way each time, and nobody who says that the loop has ended.
    runJobs { pthread_exit(nil) }
    usleep(300_000)
    let before = monitor.watchdogWakeUps
    usleep(500_000)
    say("wakeups=\(monitor.watchdogWakeUps - before)")
  },
  "executor-on-the-main-thread-ends": {
    // The process goes on without its main thread.
    let loop = JobLoop()
    startThread("rest") {
      usleep(100_000)
      loop.post { pthread_exit(nil) }
      usleep(UInt32(milliseconds) * 1000)
      say("watched=\(loop.isWatched)")
      monitor.stop()
      exit(0)
    }
    loop.run()
  },
  "executor-ends-in-stall": {
    runJobs {
      say("errno=\(blockBySleeping())")
      pthread_exit(nil)
    }
  },
  "executor-let-go": {
    let loop = JobLoop()
    startThread("jobs") { loop.run() }
    usleep(100_000)
    let before = loop.isWatched
    loop.end()
    say("watched=\(before),\(loop.isWatched)")
    loop.post { say("errno=\(blockBySleeping())") }
    usleep(UInt32(milliseconds + 200) * 1000)
  },
  "executor-moves": {
    let loop = JobLoop()
    startThread("jobs") { loop.run() }
    usleep(100_000)
    loop.acknowledgeFromHere()
    loop.post { say("errno=\(blockBySleeping())") }
    usleep(UInt32(milliseconds + 200) * 1000)
  },
  "executor-paused": {
    let loop = JobLoop()
    startThread("jobs") { loop.run() }
    usleep(100_000)
    for _ in 0..<3 { monitor.expectSlow(on: "jbos") {} }
    loop.post { monitor.expectSlow(on: "jobs") { say("errno=\(blockBySleeping())") } }
    usleep(UInt32(milliseconds + 200) * 1000)
  },
  // Both at the same time, and the slow work of one is expected.
  "executor-stalls-beside": {
    let loop = JobLoop()
    startThread("jobs") { loop.run() }
    usleep(100_000)
    loop.post { say("errno=\(blockBySleeping())") }
    Loop.main.perform {
      monitor.expectSlow(on: "main") { _ = blockBySleeping() }
      Loop.main.stop()
    }
    Loop.main.run()
    usleep(300_000)
  },
  // What a service does that an operator does not want watched.
  "loops-unwatched": {
    let isCurrent = StallMonitor.current === monitor
    let reason = monitor.notWatchingReason
    monitor.stop()
    say("reason:\(reason ?? "none"):\(monitor.notWatchingReason ?? "none")")
    do throws(StallMonitorError) {
      let loop = try monitor.watch(Loop.main, name: "jobs")
      let thread = try monitor.watchCurrentThread(as: LoopDescription(name: "jobs") { $0.acknowledge() })
      thread.stop()
      say("watching=\(loop.isWatching || thread.isWatching)")
      loop.stop()
      say("current=\(isCurrent),\(StallMonitor.current != nil)")
      try monitor.watch(Loop.main, name: "")
    } catch {
      say("code=\(error.code)")
    }
  },
  "executor-killed": {
    runJobs {
      say("errno=\(blockBySleeping())")
      kill(getpid(), SIGKILL)
      say("errno=\(blockBySleeping())")
    }
  },
]

/// Runs a job on a loop that is watched, and waits for as long as it takes.
private func runJobs(_ job: @escaping @Sendable () -> Void) {
  let loop = JobLoop()
  startThread("jobs") { loop.run() }
  usleep(100_000)
  loop.post(job)
  usleep(UInt32(milliseconds + 400) * 1000)
}
