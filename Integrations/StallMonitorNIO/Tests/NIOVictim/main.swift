import Dispatch
import Glibc
import NIOCore
import NIOEmbedded
import NIOPosix
import StallMonitor
import StallMonitorNIO

// A service on SwiftNIO: it does one thing on its event loops, and is judged from outside by its report lines.
//
//   NIOVictim SCENARIO

/// One line on standard error, by one write.
func say(_ text: String) {
  let line = Array((text + "\n").utf8)
  _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
}

let scenario = CommandLine.arguments.dropFirst().first ?? ""
let monitor = try StallMonitor.start()
let (eventLoops, watchdog) = ("NIO-ELT", "stall-watchdog")

/// How often the threads whose names begin like this have been given a processor.
func timeslices(of name: String) -> Int {
  var count = 0
  guard let directory = opendir("/proc/self/task") else { return 0 }
  defer { closedir(directory) }
  while let entry = readdir(directory) {
    let id = withUnsafePointer(to: &entry.pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
    }
    guard text(of: "/proc/self/task/\(id)/comm").hasPrefix(name) else { continue }
    count += Int(text(of: "/proc/self/task/\(id)/schedstat").split(whereSeparator: \.isWhitespace).last ?? "") ?? 0
  }
  return count
}

func text(of path: String) -> String {
  let file = open(path, O_RDONLY)
  guard file >= 0 else { return "" }
  defer { close(file) }
  var buffer = [UInt8](repeating: 0, count: 256)
  let count = read(file, &buffer, buffer.count)
  return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
}

func descriptors() -> Int {
  guard let directory = opendir("/proc/self/fd") else { return 0 }
  defer { closedir(directory) }
  var count = 0
  while readdir(directory) != nil { count += 1 }
  return count
}

@inline(never) func stallTheFirstLoop() { usleep(700_000); say("victim: first=done") }
@inline(never) func stallTheThirdLoop() { usleep(900_000); say("victim: third=done") }
@inline(never) func stallTheMainThread() { usleep(900_000); say("victim: main=done") }

let threads = scenario == "idle" ? 4 : 3

switch scenario {
case "sleep", "compute":
  let group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
  try monitor.watch(group)
  let server = try serve(on: group)
  let client = Client(to: server)
  client.ask("hello")
  usleep(300_000)
  let begin = now()
  client.ask("\(scenario) 900")
  say("victim: took_ms=\((now() - begin) / 1_000_000)")
  client.ask("hello")
  try group.syncShutdownGracefully()

case "healthy":
  // Work on every loop, most of the time, in turns of a few milliseconds.
  let group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
  try monitor.watch(group)
  let server = try serve(on: group)
  let clients = (0..<6).map { _ in Client(to: server) }
  let end = now() + 2_500_000_000
  var count = 0
  while now() < end {
    for client in clients { client.send("hello 64 bytes") }
    for client in clients { client.receive() }
    for loop in group.makeIterator() { loop.execute { usleep(2000) } }
    count += 1
  }
  say("victim: rounds=\(count) wakeups=\(timeslices(of: watchdog))")
  try group.syncShutdownGracefully()

case "idle":
  let group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
  try monitor.watch(group)
  usleep(1_000_000)
  // A busy machine may take a thread's processor away between two instructions; a moment of rest is enough.
  var quiet = 0
  var wakeUps = 0
  for _ in 0..<10 {
    let (before, wakeUpsBefore) = (timeslices(of: eventLoops), timeslices(of: watchdog))
    usleep(500_000)
    if timeslices(of: eventLoops) == before { quiet += 1 }
    wakeUps = timeslices(of: watchdog) - wakeUpsBefore
    if quiet == 2 { break }
  }
  say("victim: quiet=\(quiet) wakeups=\(wakeUps) slices=\(timeslices(of: eventLoops))")
  // It is still watched.
  try group.next().submit { stallTheFirstLoop() }.wait()
  try group.syncShutdownGracefully()

case "several":
  let group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
  try monitor.watch(group, name: "worker")
  let loops = Array(group.makeIterator())
  usleep(100_000)
  let stalls = [loops[0].submit { stallTheFirstLoop() }, loops[2].submit { stallTheThirdLoop() }]
  let healthy = loops[1].scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(2)) { _ in }
  for stall in stalls { try stall.wait() }
  usleep(50_000)
  healthy.cancel()
  try group.syncShutdownGracefully()

case "shutdown":
  // Heartbeats are sent at any moment of a shutdown. The first round opens what stays open.
  var before = 0
  for round in 0...150 {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
    let watch = try monitor.watch(group)
    if round % 3 == 0 { watch.stop() }
    for loop in group.makeIterator() { for _ in 0..<50 { loop.execute { usleep(20) } } }
    if round % 2 == 0 { usleep(UInt32(round) * 40) }
    if round % 5 == 0 {
      // The watch ends while the group shuts down.
      let isDown = DispatchSemaphore(value: 0)
      group.shutdownGracefully { _ in isDown.signal() }
      watch.stop()
      isDown.wait()
    } else {
      try group.syncShutdownGracefully()
    }
    watch.stop()
    if round == 0 {
      usleep(200_000)
      before = descriptors()
    }
  }
  // On a busy machine the watchdog may take a while to find that nothing is left.
  var wakeUps = Int.max
  for _ in 0..<10 where wakeUps > 0 {
    let before = timeslices(of: watchdog)
    usleep(300_000)
    wakeUps = timeslices(of: watchdog) - before
  }
  say("victim: left=\(descriptors() - before) wakeups=\(wakeUps)")

case "shutdown-in-stall":
  let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  try monitor.watch(group)
  usleep(100_000)
  group.next().execute { stallTheFirstLoop() }
  usleep(100_000)
  try group.syncShutdownGracefully()
  usleep(600_000)

case "unwatch":
  let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  let watch = try monitor.watch(group)
  usleep(100_000)
  watch.stop()
  usleep(50_000)
  try group.next().submit { stallTheFirstLoop() }.wait()
  try group.syncShutdownGracefully()

case "taken-over":
  // The main thread becomes an event loop, which is watched before it runs.
  MultiThreadedEventLoopGroup.withCurrentThreadAsEventLoop { loop in
    do { try monitor.watch(loop, name: "front") } catch { say("victim: error=\(error)") }
    loop.scheduleTask(in: .milliseconds(300)) { stallTheMainThread() }
    loop.scheduleTask(in: .milliseconds(1300)) { loop.shutdownGracefully { _ in } }
  }

case "stopped":
  // Stopped and continued from outside, while its loops are busy.
  let group = MultiThreadedEventLoopGroup(numberOfThreads: threads)
  try monitor.watch(group)
  for loop in group.makeIterator() {
    loop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(1)) { _ in usleep(3000) }
  }
  usleep(300_000)
  say("victim: ready=true")
  usleep(2_000_000)
  try group.syncShutdownGracefully()

case "wrong":
  func attempt(_ what: String, _ body: () throws -> Void) {
    do { try body(); say("\(what): no error") } catch { say("\(what): \(error)") }
  }
  let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
  attempt("embedded") { try monitor.watch(EmbeddedEventLoop()) }
  attempt("threshold") { try monitor.watch(group, threshold: .microseconds(1)) }
  attempt("name") { try monitor.watch(group, name: String(repeating: "n", count: 200)) }
  try group.syncShutdownGracefully()

default:
  say("victim: unknown scenario \(scenario)")
  exit(2)
}
monitor.stop()
