import CLinux
import Dispatch
import Glibc
import StallMonitor
import VictimC

// A service whose main queue has no run loop: it does one thing on that queue, and is judged from outside by its report lines.
//
//   DispatchMainVictim SCENARIO

@inline(never)
func compute(milliseconds: Double) -> Int {
  var count = 0
  let end = DispatchTime.now().uptimeNanoseconds + UInt64(milliseconds * 1e6)
  while DispatchTime.now().uptimeNanoseconds < end { count += 1 }
  return count
}

@inline(never)
func computeOnTheMainQueue() { say("count=\(compute(milliseconds: 450))") }

@inline(never)
func sleepOnTheMainQueue() {
  usleep(450_000)
  say("slept=true")
}

@inline(never)
func say(_ text: String) {
  let line = "victim: \(text)\n"
  write(2, line, line.utf8.count)
}

func after(_ milliseconds: Int, _ body: @escaping @Sendable () -> Void) {
  DispatchQueue.main.asyncAfter(deadline: .now() + .milliseconds(milliseconds), execute: body)
}

/// Inspects the process without libdispatch, because libdispatch's threads are what it inspects.
func later(_ milliseconds: UInt32, _ body: @escaping @Sendable () -> Void) {
  let box = Unmanaged.passRetained(Box(milliseconds: milliseconds, body: body))
  var thread = pthread_t()
  pthread_create(
    &thread, nil,
    { argument in
      let box = Unmanaged<Box>.fromOpaque(argument!).takeRetainedValue()
      usleep(box.milliseconds * 1000)
      box.body()
      return nil
    }, box.toOpaque())
}

final class Box: Sendable {
  let milliseconds: UInt32
  let body: @Sendable () -> Void
  init(milliseconds: UInt32, body: @escaping @Sendable () -> Void) {
    (self.milliseconds, self.body) = (milliseconds, body)
  }
}

/// How often the process's threads have given their processor up by themselves, all but the watchdog and the calling one.
func switchesOfOthers() -> Int {
  var sum = 0
  guard let directory = opendir("/proc/self/task") else { return -1 }
  defer { closedir(directory) }
  while let entry = readdir(directory) {
    let name = withUnsafePointer(to: &entry.pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
    }
    guard let id = Int32(name), id != clinux_gettid() else { continue }
    guard let status = text(of: "/proc/self/task/\(name)/status"), !status.contains("stall-watchdog") else { continue }
    for line in status.split(separator: "\n") where line.hasPrefix("voluntary_ctxt_switches:") {
      sum += line.split(separator: "\t").last.flatMap { Int($0) } ?? 0
    }
  }
  return sum
}

func text(of path: String) -> String? {
  let file = open(path, O_RDONLY)
  guard file >= 0 else { return nil }
  defer { close(file) }
  var bytes = [UInt8](repeating: 0, count: 8192)
  let count = read(file, &bytes, bytes.count)
  return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
}

nonisolated(unsafe) var sampleCount = 0  // Written by a handler that is not to run.

func countSample(_ number: Int32) { sampleCount += 1 }

/// The address of the process's handler for SIGPROF; nil for the default.
func profilingHandler() -> UInt? {
  var action = sigaction()
  sigaction(SIGPROF, nil, &action)
  return withUnsafeBytes(of: &action.__sigaction_handler) { bytes in
    let address = bytes.load(as: UInt.self)
    return address == 0 ? nil : address
  }
}

@Sendable func finish(_ monitor: StallMonitor) {
  monitor.stop()
  exit(0)
}

let monitor = try StallMonitor.start()

switch CommandLine.arguments.dropFirst().first ?? "" {
case "compute":
  after(150) {
    computeOnTheMainQueue()
    later(200) {
      say("default=\(profilingHandler() == nil)")
      finish(monitor)
    }
  }
case "profiled":
  // A host that has a profiler of its own.
  signal(SIGPROF, countSample)
  let before = profilingHandler()
  after(150) {
    computeOnTheMainQueue()
    later(200) {
      say("kept=\(profilingHandler() == before) samples=\(sampleCount)")
      finish(monitor)
    }
  }
case "sleep":
  after(150) {
    sleepOnTheMainQueue()
    later(200) { finish(monitor) }
  }
case "after-idleness":
  // Some microseconds of work, and then the wait.
  later(700) {
    DispatchQueue.main.async {
      sleepOnTheMainQueue()
      later(200) { finish(monitor) }
    }
  }
case "sync":
  // The work of dispatch_sync is run by its caller.
  later(150) {
    DispatchQueue.main.sync { sleepOnTheMainQueue() }
    usleep(200_000)
    finish(monitor)
  }
case "busy":
  let timer = DispatchSource.makeTimerSource(queue: .main)
  timer.schedule(deadline: .now(), repeating: .milliseconds(3))
  timer.setEventHandler { _ = compute(milliseconds: Double.random(in: 0...15)) }
  timer.resume()
  later(1200) { finish(monitor) }
case "saturated":
  // Never idle: each block queues the next.
  @Sendable func next() {
    _ = compute(milliseconds: 5)
    DispatchQueue.main.async { next() }
  }
  next()
  later(1200) { finish(monitor) }
case "idle":
  later(300) {
    let (wakeUps, switches) = (monitor.watchdogWakeUps, switchesOfOthers())
    usleep(1_200_000)
    say("wakeups=\(monitor.watchdogWakeUps - wakeUps) switches=\(switchesOfOthers() - switches)")
    finish(monitor)
  }
case "paused":
  monitor.pause()
  after(150) {
    sleepOnTheMainQueue()
    later(200) { finish(monitor) }
  }
case "never-serves":
  // Blocks wait on the main queue, and the main thread never comes.
  after(0) { say("served=true") }
  usleep(600_000)
  finish(monitor)
case "forked":
  // The child has its parent's main queue, and none of its threads.
  let child = victim_fork()
  if child == 0 {
    let own = try StallMonitor.start()
    say("watching=\(own.isWatching)")
    usleep(600_000)
    own.stop()
    _exit(0)
  }
  waitpid(child, nil, 0)
  finish(monitor)
case "stopped-in-time":
  after(150) { monitor.stop() }
  after(200) {
    sleepOnTheMainQueue()
    later(200) { exit(0) }
  }
case "starved":
  // Each serial queue asks for a thread of its own, and libdispatch has at most 255 of those.
  let queues = (0..<300).map { DispatchQueue(label: "occupied \($0)") }
  later(150) {
    for queue in queues { queue.async { usleep(1_000_000) } }
    usleep(300_000)
    DispatchQueue.main.async { say("served=true") }
    usleep(1_200_000)
    finish(monitor)
  }
default:
  say("unknown scenario")
  exit(2)
}
dispatchMain()
