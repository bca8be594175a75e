import Dispatch
import Glibc
import LoopEngine
import StallMonitor
import Synchronization
import VictimC

// A host program for the tests: it does one thing on its main loop, and is judged from outside by its report lines.
//
//   StallVictim SCENARIO [MILLISECONDS]
//
// On standard error it says what it did, as `victim: key=value …`, with times of CLOCK_MONOTONIC.

let scenario = CommandLine.arguments.dropFirst().first ?? ""
let milliseconds = CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) } ?? 400

func say(_ text: String) {
  let line = Array("victim: \(text)\n".utf8)
  _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
}

func now() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
}

@inline(never)
func spin(_ milliseconds: Double) {
  let end = now() + milliseconds
  while now() < end {}
}

@inline(never)
func blockByComputing() {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  let end = time.tv_sec * 1000 + time.tv_nsec / 1_000_000 + milliseconds
  while time.tv_sec * 1000 + time.tv_nsec / 1_000_000 < end {
    clock_gettime(CLOCK_MONOTONIC, &time)  // line: computing
  }
}

@inline(never)
func blockBySleeping() -> Int32 {
  var time = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
  var left = timespec()
  return nanosleep(&time, &left) == 0 ? 0 : errno  // line: sleeping
}

@inline(never)
func blockBySelecting() -> Int32 {
  var time = timeval(tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000)
  return select(0, nil, nil, nil, &time) == 0 ? 0 : errno
}

@inline(never)
func descend(_ depth: Int) {
  if depth > 0 { descend(depth - 1) } else { blockByComputing() }
  withExtendedLifetime(depth) {}
}

func variable(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }

/// Ends the process during a stall.
func endAfterwards() {
  DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
    monitor.stop()
    _exit(0)
  }
}

@inline(never)
func keepTheLock() -> Int {
  // Not the last action: a jump would leave no frame.
  usleep(UInt32(milliseconds) * 1000)
  return milliseconds
}

/// Waits for a lock of Swift's, or for a queue that another thread drains.
@inline(never)
func blockByWaitingInSwift(for kind: String) {
  let serial = DispatchQueue(label: "com.example.serial")
  let held = DispatchSemaphore(value: 0)
  let keep: @Sendable () -> Void = {
    say("keeper=\(victim_thread_id())")
    held.signal()
    _ = keepTheLock()
  }
  switch kind {
  case "Mutex":
    let lock = Mutex(0)
    DispatchQueue.global().async { lock.withLock { _ in keep() } }
    held.wait()
    lock.withLock { $0 += 1 }
  case "queue":
    serial.async(execute: keep)
    held.wait()
    serial.sync {}
  case "queue by its target":
    let upper = DispatchQueue(label: "com.example.upper", target: serial)
    serial.async(execute: keep)
    held.wait()
    upper.sync {}
  case "queue behind a barrier":
    let concurrent = DispatchQueue(label: "com.example.concurrent", attributes: .concurrent)
    concurrent.async(flags: .barrier, execute: keep)
    held.wait()
    concurrent.sync {}
  case "loop", "thread of its own":
    let thread = PermanentThread(name: "keeper")
    try? thread.start()
    thread.perform { keep() }
    held.wait()
    if kind == "loop" { try? thread.performAndWait {} } else { thread.stop() }
  case "nobody: barrier behind readers":
    let concurrent = DispatchQueue(label: "com.example.concurrent", attributes: .concurrent)
    concurrent.async(execute: keep)
    held.wait()
    concurrent.sync(flags: .barrier) {}
  default:
    say("unknown lock: \(kind)")
    exit(2)
  }
}

/// Reads a file through memory, in places that the kernel has just been asked to drop.
@inline(never)
func blockByFaulting() {
  let size = 64 << 20
  let path = variable("VICTIM_FILE")
  let descriptor = open(path, O_RDONLY)
  guard descriptor >= 0, let memory = mmap(nil, size, PROT_READ, MAP_SHARED, descriptor, 0), memory != MAP_FAILED else {
    return say("no file: \(path)")
  }
  madvise(memory, size, MADV_RANDOM)
  let end = now() + Double(milliseconds)
  var sum = 0
  while now() < end {
    madvise(memory, size, MADV_DONTNEED)
    posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
    var place = 0
    while place < size, now() < end {
      sum += Int(memory.load(fromByteOffset: place, as: UInt8.self))
      place += 1 << 16
    }
  }
  say("sum=\(sum)")
}

/// A thread with a name, for as long as the process lives.
func startThread(_ name: String, _ body: @escaping @Sendable () -> Void) {
  final class Work: Sendable {
    let name: String
    let body: @Sendable () -> Void
    init(_ name: String, _ body: @escaping @Sendable () -> Void) { (self.name, self.body) = (name, body) }
  }
  var handle = pthread_t()
  var attributes = pthread_attr_t()
  pthread_attr_init(&attributes)
  pthread_attr_setstacksize(&attributes, 256 << 10)
  pthread_create(
    &handle, &attributes,
    { argument in
      let work = Unmanaged<Work>.fromOpaque(argument!).takeRetainedValue()
      victim_name_thread(work.name)
      work.body()
      return nil
    }, Unmanaged.passRetained(Work(name, body)).toOpaque())
}

/// The main thread waits for a queue whose thread waits for the main queue.
@inline(never)
func deadlockQueues() {
  let serial = DispatchQueue(label: "com.example.serial")
  let held = DispatchSemaphore(value: 0)
  serial.async {
    held.signal()
    DispatchQueue.main.sync {}
  }
  held.wait()
  usleep(50_000)
  serial.sync {}
}

/// The main thread waits for another thread's loop, which waits for the main loop.
@inline(never)
func deadlockLoops() {
  let thread = PermanentThread(name: "worker")
  try? thread.start()
  try? thread.performAndWait { try? Loop.main.performAndWait {} }
}

/// How often the watchdog has woken when it has come to rest: when it has not for half a second.
///
/// One that never comes to rest is waited for no longer than ten. With notifications of the service
/// manager it does not come to rest.
func wakeUpsAtRest() -> UInt64 {
  var before = monitor.watchdogWakeUps
  for _ in 0..<20 where variable("WATCHDOG_USEC").isEmpty {
    usleep(500_000)
    let later = monitor.watchdogWakeUps
    if later == before { break }
    before = later
  }
  return before
}

extension Loop {
  func after(
    _ milliseconds: Int, repeats: Bool = false, in mode: Mode = .common, _ body: @escaping @Sendable () -> Void
  ) {
    let timer = Timer(after: .milliseconds(milliseconds), repeats: repeats, name: "victim") { _ in body() }
    add(timer, to: mode)
  }
}

/// Runs `body` once on the main loop, some turns after the start, and ends the loop some turns later.
func once(_ body: @escaping @Sendable () -> Void) {
  let loop = Loop.main
  loop.after(50) {
    let start = now()
    body()
    say("scenario=\(scenario) took_ms=\(now() - start)")
  }
  loop.after(100) { loop.stop() }
  loop.run()
}

if variable("VICTIM_SHARES_ITS_TABLE") == "1", !victim_refuse_own_tables() { say("no filter") }
if variable("VICTIM_MAKES_NO_TIMERS") == "1", !victim_refuse_timers() { say("no filter") }
if variable("VICTIM_SENDS_NOTHING") == "1", !victim_refuse_sends() { say("no filter") }
// Elsewhere the main loop comes into being after the monitor.
if scenario == "main-loop-first" { _ = Loop.main }
let monitor: StallMonitor
do {
  var configuration = StallMonitorConfiguration()
  configure(&configuration)
  monitor = try StallMonitor.start(configuration)
} catch {
  say("start failed: \(error)")
  exit(3)
}
say("watching=\(monitor.isWatching)")

switch scenario {
case "healthy":
  // Busy all the time, and never late: short turns, by timers and by sources that keep the loop from waiting.
  let loop = Loop.main
  let end = now() + Double(milliseconds)
  loop.after(3, repeats: true) {
    spin(Double.random(in: 0...15))
    if now() > end { loop.stop() }
  }
  @Sendable func again() {
    spin(2)
    loop.perform { again() }
  }
  loop.perform { again() }
  loop.run()
case "idle":
  // Counted by another thread, once the watchdog has parked: a timer of the loop's own would be a turn.
  DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(700)) {
    let before = wakeUpsAtRest()
    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
      say("wakeups=\(monitor.watchdogWakeUps - before)")
      Loop.main.stop()
    }
  }
  Loop.main.run()
case "never-runs":
  // A service that starts slowly: its loop does not turn yet, so it cannot stall.
  spin(Double(milliseconds))
case "compute": once { blockByComputing() }
case "expected": once { monitor.expectSlow { blockByComputing() } }
case "expected-and-more":
  once {
    monitor.expectSlow { blockByComputing() }
    victim_c_compute(UInt32(milliseconds))
  }
case "deep": once { descend(300) }
case "sleep": once { say("errno=\(blockBySleeping())") }
case "select": once { say("errno=\(blockBySelecting())") }
case "c-compute": once { victim_c_compute(UInt32(milliseconds)) }
case "c-compute-in-parts": once { say("result=\(victim_c_compute_in_parts(UInt32(milliseconds)))") }
case "c-sleep": once { say("errno=\(victim_c_sleep(UInt32(milliseconds)))") }
case "nested":
  // A nested run in a private mode that turns healthily for longer than the threshold.
  let loop = Loop.main
  let mode: Loop.Mode = "private"
  loop.after(20) {
    let end = Loop.Instant.now.advanced(by: .milliseconds(milliseconds))
    loop.after(10, repeats: true, in: mode) { spin(1) }
    while Loop.Instant.now < end { _ = loop.run(mode: mode, before: end) }
    loop.stop()
  }
  loop.run()
case "stall-in-nested":
  let loop = Loop.main
  let mode: Loop.Mode = "private"
  loop.after(20) {
    loop.after(20, in: mode) { blockByComputing() }
    _ = loop.run(mode: mode, before: .now.advanced(by: .milliseconds(milliseconds + 100)))
    loop.stop()
  }
  loop.run()
case "lock":
  // What is waited for is named by the variable: an argument that the wrapper commands pass through.
  let kind = variable("VICTIM_LOCK")
  once { if !victim_wait_for(kind, UInt32(milliseconds)) { blockByWaitingInSwift(for: kind) } }
case "call":
  let name = variable("VICTIM_CALL")
  guard let index = (0..<victim_call_count).first(where: { String(cString: victim_call_name($0)) == name }) else {
    say("unknown call: \(name)")
    exit(2)
  }
  victim_call_set_duration(UInt32(milliseconds))
  once { _ = victim_call_run(index) }
case "faults": once { blockByFaulting() }
case "crowd":
  // Threads that are blocked, and two that run.
  let crowd = Int(variable("VICTIM_CROWD")) ?? 0
  for number in 0..<crowd {
    startThread("crowd-\(number)") { if number < 2 { spin(20_000) } else { pause() } }
  }
  once { say("errno=\(blockBySleeping()) crowd=\(crowd)") }
  monitor.stop()
  _exit(0)
case "deadlock":
  endAfterwards()
  Loop.main.after(20) { victim_deadlock(UInt32(variable("VICTIM_LOCK")) ?? 0) }
  Loop.main.run()
case "deadlock-of-queues":
  endAfterwards()
  Loop.main.after(20) { deadlockQueues() }
  Loop.main.run()
case "deadlock-of-loops":
  endAfterwards()
  Loop.main.after(20) { deadlockLoops() }
  Loop.main.run()
case "crash":
  Loop.main.after(20) { fatalError("the test says so") }
  Loop.main.run()
case "exit-in-stall":
  Loop.main.after(20) {
    blockByComputing()
    monitor.stop()
    exit(0)
  }
  Loop.main.run()
case let heartbeat where heartbeatScenarios[heartbeat] != nil: heartbeatScenarios[heartbeat]!()
case let repeated where repeatScenarios[repeated] != nil: repeatScenarios[repeated]!()
case let health where healthScenarios[health] != nil: healthScenarios[health]!()
case let loops where loopScenarios[loops] != nil: loopScenarios[loops]!()
case let fatal where fatalScenarios[fatal] != nil: fatalScenarios[fatal]!()
default:
  say("unknown scenario: \(scenario)")
  exit(2)
}
monitor.stop()
