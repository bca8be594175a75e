import BenchmarkSupport
import Foundation
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// How often the watchdog wakes while the host has nothing to do.
enum IdleCost {
  static func run() throws -> [BenchmarkRow] {
    var configuration = StallMonitorConfiguration()
    configuration.sink = .file(path: "/dev/null")
    let monitor = try StallMonitor.start(configuration)
    let loop = Loop.main
    let count = Mutex<Int>(-1)
    // Counted by another thread: a timer of the loop's own would be a turn.
    Thread.detachNewThread {
      Thread.sleep(forTimeInterval: 1)
      let before = try? switches()
      Thread.sleep(forTimeInterval: 10)
      if let before, let after = try? switches() { count.withLock { $0 = after - before } }
      loop.stop()
    }
    loop.run()
    monitor.stop()
    guard case let woken = count.withLock({ $0 }), woken >= 0 else { throw POSIXError(.ESRCH) }
    return [
      BenchmarkRow(
        benchmark: "wake-ups in 10 s of idling", subject: "watchdog thread", value: Double(woken), unit: "times", bar: 0
      )
    ]
  }

  /// The voluntary context switches of the watchdog thread, as the kernel counts them.
  private static func switches() throws -> Int {
    for thread in try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task") {
      let directory = "/proc/self/task/\(thread)"
      guard try String(contentsOfFile: directory + "/comm", encoding: .utf8) == "stall-watchdog\n" else { continue }
      for line in try String(contentsOfFile: directory + "/status", encoding: .utf8).split(separator: "\n")
      where line.hasPrefix("voluntary_ctxt_switches:") {
        return Int(line.split(separator: "\t")[1]) ?? -1
      }
    }
    throw POSIXError(.ESRCH)
  }
}
