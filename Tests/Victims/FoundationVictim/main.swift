import CoreFoundation
import Foundation
import StallMonitor

// A service on Foundation's run loop: it does one thing on its main thread, and is judged from outside by its report lines.
//
//   FoundationVictim SCENARIO

let scenario = CommandLine.arguments.dropFirst().first ?? ""

@inline(never)
func compute(milliseconds: Double) -> Int {
  var count = 0
  let end = DispatchTime.now().uptimeNanoseconds + UInt64(milliseconds * 1e6)
  while DispatchTime.now().uptimeNanoseconds < end { count += 1 }
  return count
}

@inline(never)
func blockFoundationLoop() {
  let count = compute(milliseconds: 500)
  FileHandle.standardError.write(Data("victim: count=\(count)\n".utf8))
}

@inline(never)
func sleepOnFoundationLoop() {
  usleep(500_000)
  FileHandle.standardError.write(Data("victim: slept=true\n".utf8))
}

// Each of its own length, so that no two are one for the linker; and what is said after it keeps the call from being a jump.
@inline(never) @Sendable func first() { say(usleep(150000)) }
@inline(never) @Sendable func second() { say(usleep(150001)) }
@inline(never) @Sendable func third() { say(usleep(150002)) }
@inline(never) @Sendable func fourth() { say(usleep(150003)) }
@inline(never) @Sendable func fifth() { say(usleep(150004)) }
@inline(never) @Sendable func sixth() { say(usleep(150005)) }
@inline(never) @Sendable func seventh() { say(usleep(150006)) }
@inline(never) @Sendable func eighth() { say(usleep(150007)) }

func say(_ result: Int32) { FileHandle.standardError.write(Data("victim: result=\(result)\n".utf8)) }

func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) {
  RunLoop.main.add(Timer(timeInterval: seconds, repeats: false) { _ in body() }, forMode: .common)
}

/// A thread's run loop that stalls once, and ends with its thread; `watch` is called there with it and the main thread with its handle.
func runThread(_ watch: @escaping @Sendable (_ byHandle: CFRunLoop?) throws -> LoopWatch?) throws {
  // Set by the thread before it signals `isReady`, and read here after that.
  nonisolated(unsafe) var handle: CFRunLoop?
  // Written by one thread at a time; where it is polled, a late sight costs 5 ms.
  nonisolated(unsafe) var made: LoopWatch?
  let (isReady, isOver) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
  let thread = Thread {
    handle = CFRunLoopGetCurrent()
    made = try? watch(nil)
    // `Timer(timeInterval:repeats:block:)` fires at once on Linux.
    let timer = Timer(fire: Date(timeIntervalSinceNow: 0.4), interval: 0, repeats: false) { _ in blockFoundationLoop() }
    RunLoop.current.add(timer, forMode: .common)
    isReady.signal()
    let end = Date(timeIntervalSinceNow: 1.2)
    while Date() < end, RunLoop.current.run(mode: .default, before: end) {}
    isOver.signal()
  }
  thread.start()
  isReady.wait()
  // By then it waits.
  usleep(100_000)
  made = try watch(handle) ?? made
  isOver.wait()
  for _ in 0..<1000 where made?.isWatching == true { usleep(5000) }
  let again = Thread { made = try? monitor.watchCurrentCoreFoundationRunLoop(name: "worker") }
  let before = made
  again.start()
  for _ in 0..<1000 where made === before { usleep(5000) }
  FileHandle.standardError.write(
    Data("victim: watching=\(before?.isWatching ?? true) name_is_free=\(made != nil && made !== before)\n".utf8))
  monitor.stop()
  exit(0)
}

/// Watches a run loop by its handle, and says how many descriptors that opened.
func watchOnAThreadWithoutARunLoop(_ handle: CFRunLoop) -> LoopWatch? {
  // Used by one thread at a time: this one waits.
  nonisolated(unsafe) let handle = handle
  // Likewise: set by the thread before it signals, read after that.
  nonisolated(unsafe) var watch: LoopWatch?
  let isOver = DispatchSemaphore(value: 0)
  let thread = Thread {
    let before = descriptorCount()
    watch = try? monitor.watch(coreFoundationRunLoop: handle, name: "worker", threshold: .milliseconds(150))
    FileHandle.standardError.write(Data("victim: opened=\(descriptorCount() - before)\n".utf8))
    isOver.signal()
  }
  thread.start()
  isOver.wait()
  return watch
}

func descriptorCount() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? -1 }

// In these scenarios the service makes its run loop after the monitor's start.
if !["late", "at-once", "idle-late"].contains(scenario) { _ = RunLoop.main }
let descriptors = descriptorCount()
let monitor = try StallMonitor.start()
FileHandle.standardError.write(Data("victim: descriptors=\(descriptorCount() - descriptors)\n".utf8))
let nested = RunLoop.Mode("private")

switch scenario {
case "late":
  usleep(100_000)
  RunLoop.main.add(
    Timer(fire: Date(timeIntervalSinceNow: 0.3), interval: 0, repeats: false) { _ in blockFoundationLoop() },
    forMode: .common)
case "at-once": DispatchQueue.main.async { blockFoundationLoop() }
case "compute": after(0.05) { blockFoundationLoop() }
case "sleep": after(0.05) { sleepOnFoundationLoop() }
case "main-queue-crowded":
  // One after another, each of its own function.
  DispatchQueue.main.asyncAfter(deadline: .now() + 0.05) {
    for step in [first, second, third, fourth, fifth, sixth, seventh, eighth] {
      DispatchQueue.main.async(execute: step)
    }
  }
case "main-queue": DispatchQueue.main.asyncAfter(deadline: .now() + 0.05) { blockFoundationLoop() }
case "thread-run-loop":
  try runThread { handle in
    handle == nil ? try monitor.watchCurrentCoreFoundationRunLoop(name: "worker", threshold: .milliseconds(150)) : nil
  }
case "thread-run-loop-by-handle":
  try runThread { handle in handle.flatMap { watchOnAThreadWithoutARunLoop($0) } }
case "no-run-loop":
  let mode = CFRunLoopCopyCurrentMode(CFRunLoopGetMain()) as AnyObject?
  let others: [AnyObject] = [RunLoop.main, NSString("worker"), CFUUIDCreate(nil), monitor] + [mode].compactMap(\.self)
  for other in others {
    do throws(StallMonitorError) {
      try monitor.watch(coreFoundationRunLoop: other, name: "worker")
      FileHandle.standardError.write(Data("victim: watched=\(type(of: other))\n".utf8))
    } catch {
      FileHandle.standardError.write(Data("victim: \(type(of: other))=\(error.code) \(error.message)\n".utf8))
    }
  }
  exit(0)
case "nested-private":
  // Turns healthily in a mode that no observer in the common modes sees.
  after(0.05) {
    let end = Date(timeIntervalSinceNow: 1.5)
    let timer = Timer(timeInterval: 0.02, repeats: true) { _ in _ = compute(milliseconds: 2) }
    RunLoop.main.add(timer, forMode: nested)
    while Date() < end { _ = RunLoop.main.run(mode: nested, before: end) }
    timer.invalidate()
  }
case "nested-common":
  after(0.05) {
    let end = Date(timeIntervalSinceNow: 1.5)
    let timer = Timer(timeInterval: 0.02, repeats: true) { _ in _ = compute(milliseconds: 2) }
    RunLoop.main.add(timer, forMode: .default)
    while Date() < end { _ = RunLoop.main.run(mode: .default, before: end) }
    timer.invalidate()
  }
case "after-nested":
  // The outer callout continues after a nested run, and stalls.
  after(0.05) {
    _ = RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.1))
    blockFoundationLoop()
  }
case "busy":
  RunLoop.main.add(
    Timer(timeInterval: 0.003, repeats: true) { _ in _ = compute(milliseconds: Double.random(in: 0...15)) },
    forMode: .common)
case "idle", "idle-late":
  if scenario == "idle-late" { usleep(25_000) }
  DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(700)) {
    let before = monitor.watchdogWakeUps
    FileHandle.standardError.write(
      Data("victim: kind=\(monitor.watchedLoops.first?.kind?.rawValue ?? "unknown")\n".utf8))
    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1500)) {
      FileHandle.standardError.write(Data("victim: wakeups=\(monitor.watchdogWakeUps - before)\n".utf8))
    }
  }
  RunLoop.main.run(until: Date(timeIntervalSinceNow: 3))
default:
  FileHandle.standardError.write(Data("victim: unknown scenario\n".utf8))
  exit(2)
}
let end = Date(timeIntervalSinceNow: 2)
while Date() < end { _ = RunLoop.main.run(mode: .default, before: end) }
monitor.stop()
