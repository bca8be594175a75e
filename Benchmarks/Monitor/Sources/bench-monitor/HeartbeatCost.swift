import BenchmarkSupport
import Foundation
import Glibc
import StallMonitor

/// How often the heartbeat of a main queue without a run loop wakes anybody, in a process of its own on `dispatchMain()`.
enum HeartbeatCost {
  private static let threshold = Duration.milliseconds(50)
  private static let seconds = 10

  static func run() throws -> [BenchmarkRow] {
    let busy = try wakeUps("heartbeat-busy")
    let idle = try wakeUps("heartbeat-idle")
    return [
      BenchmarkRow(
        benchmark: "wake-ups a threshold, dispatchMain", subject: "watchdog thread, queue busy", value: busy.watchdog,
        unit: "times", bar: 1),
      BenchmarkRow(
        benchmark: "wake-ups a threshold, dispatchMain", subject: "watchdog thread, queue idle", value: idle.watchdog,
        unit: "times", bar: 1),
      BenchmarkRow(
        benchmark: "wake-ups in 10 s of idling", subject: "service's threads, dispatchMain", value: idle.host,
        unit: "times", bar: 0),
    ]
  }

  private static func wakeUps(_ scenario: String) throws -> (watchdog: Double, host: Double) {
    let numbers = try numbers(of: scenario)
    guard numbers.count == 2 else { throw POSIXError(.ECHILD) }
    return (numbers[0], numbers[1])
  }

  /// The other process: prints the watchdog's wake-ups a threshold, and how often the host's threads woke in all.
  static func host(isBusy: Bool) throws -> Never {
    var configuration = StallMonitorConfiguration()
    configuration.sink = .file(path: "/dev/null")
    configuration.threshold = threshold
    try StallMonitor.start(configuration)
    let timer = DispatchSource.makeTimerSource(queue: .main)
    if isBusy {
      timer.schedule(deadline: .now(), repeating: .milliseconds(1))
      timer.setEventHandler { for _ in 0..<1000 { _ = nanoseconds() } }
      timer.resume()
    }
    Thread.detachNewThread {
      Thread.sleep(forTimeInterval: 2)
      let (wakeUps, switches, start) = (watchdogWakeUps(), hostSwitches(), nanoseconds())
      Thread.sleep(forTimeInterval: Double(seconds))
      let (woken, switched) = (watchdogWakeUps() - wakeUps, hostSwitches())
      let thresholds = (nanoseconds() - start) / Double(threshold / .nanoseconds(1))
      // A window has one more of them than thresholds if it begins just before one.
      // A thread that has come since counts in full, and one that has ended not at all.
      let sum = switched.reduce(0) { $0 + $1.value - (switches[$1.key] ?? 0) }
      print(Double(max(1, woken) - 1) / thresholds, sum)
      exit(0)
    }
    dispatchMain()
  }

  /// The voluntary context switches of each thread but the watchdog's and the calling one.
  private static func hostSwitches() -> [String: Int] {
    let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self"))?.split(separator: "/")
      .last
    let others = voluntarySwitches().filter { $0.key != own.map(String.init) && $0.value.name != "stall-watchdog" }
    return others.mapValues(\.count)
  }
}
