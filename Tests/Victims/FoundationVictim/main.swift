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

func after(_ seconds: Double, _ body: @escaping @Sendable () -> Void) {
  RunLoop.main.add(Timer(timeInterval: seconds, repeats: false) { _ in body() }, forMode: .common)
}

let monitor = try StallMonitor.start()
let nested = RunLoop.Mode("private")

switch scenario {
case "compute": after(0.05) { blockFoundationLoop() }
case "sleep": after(0.05) { sleepOnFoundationLoop() }
case "main-queue": DispatchQueue.main.asyncAfter(deadline: .now() + 0.05) { blockFoundationLoop() }
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
  // The outer callout goes on after a nested run, and stalls.
  after(0.05) {
    _ = RunLoop.main.run(mode: .default, before: Date(timeIntervalSinceNow: 0.1))
    blockFoundationLoop()
  }
case "busy":
  RunLoop.main.add(
    Timer(timeInterval: 0.003, repeats: true) { _ in _ = compute(milliseconds: Double.random(in: 0...15)) },
    forMode: .common)
case "idle":
  DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(700)) {
    let before = monitor.watchdogWakeUps
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
