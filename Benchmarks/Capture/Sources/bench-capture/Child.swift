import BenchmarkSupport
import CTarget
import CUnwind
import Foundation
import LoopEngine

@testable import StallCapture
@testable import StallMonitor

/// What the program does in a process that is measured from outside.
enum Child {
  static func run(_ arguments: [String]) throws {
    switch arguments {
    case ["target", "running"]: beTarget(TARGET_RUNS)
    case ["target", "waiting"]: beTarget(TARGET_WAITS)
    case ["memory", "alone"]: try tellMemory(starting: false, capturing: false)
    case ["memory", "started"]: try tellMemory(starting: true, capturing: false)
    case ["memory", "captured"]: try tellMemory(starting: true, capturing: true)
    default: throw BenchmarkError("no child does \(arguments)")
    }
  }

  /// The first thread is the target; another one answers.
  private static func beTarget(_ leaf: target_leaf) {
    target_allow_tracing()
    // Opaque to Swift; its functions for other threads are atomic.
    nonisolated(unsafe) let target = target_create(leaf, 200)!
    let tick = target_tick_length()
    Thread.detachNewThread {
      while let line = readLine() {
        if line == "begin" {
          target_open_window(target)
          writeLine("ready")
        } else {
          let gap = leaf == TARGET_RUNS ? Double(target_longest_gap(target)) * tick : 0
          writeLine("\(gap) \(target_broken_calls(target))")
        }
      }
      exit(0)
    }
    target_run(target)
  }

  private static func tellMemory(starting: Bool, capturing: Bool) throws {
    // Both sides have what every such service has: a loop, a second thread and what naming mappings takes.
    _ = Loop.main
    let waiting = target_create(TARGET_WAITS, 200)!
    let running = target_create(TARGET_RUNS, 200)!
    target_start(waiting, -1, nil)
    target_start(running, -1, starting ? { cunwind_prepare_thread_for_timer() } : nil)
    _ = try FixedMemory.ownMappings()
    var monitor: StallMonitor?
    if starting {
      var configuration = StallMonitorConfiguration()
      configuration.sink = .file(path: "/dev/null")
      monitor = try StallMonitor.start(configuration)
    }
    if capturing {
      // One more than the watchdog's own, which has not been used yet and so has hardly any memory.
      let capture = ThreadCapture(of: .own)
      for target in [waiting, running] {
        let probe = ThreadProbe(thread: target_thread(target), of: .own)
        for _ in 0..<20 { _ = capture.capture(probe, stackEnd: 0) }
      }
      withExtendedLifetime(capture) { tell() }
    } else {
      usleep(200_000)
      tell()
    }
    _ = readLine()
    withExtendedLifetime(monitor) {}
  }

  private static func tell() {
    let encoded = (try? FixedMemory.ownMappings()).flatMap { try? JSONEncoder().encode($0) } ?? Data()
    writeLine(String(decoding: encoded, as: UTF8.self))
  }
}
