import BenchmarkSupport
import Foundation
import LoopEngine
import StallMonitor
import Synchronization

/// How long after the threshold a stall is known.
enum Detection {
  private static let threshold = Duration.milliseconds(20)
  private static let stalls = 150

  static func run() throws -> [BenchmarkRow] {
    let path = NSTemporaryDirectory() + "bench-capture-\(getpid()).jsonl"
    defer { unlink(path) }
    var configuration = StallMonitorConfiguration()
    // Each stall is reported, although all are the same.
    configuration.repeatWindow = .zero
    configuration.maximumReportsPerMinute = 0
    configuration.threshold = threshold
    configuration.sink = .file(path: path)
    let monitor = try StallMonitor.start(configuration)
    let left = Atomic<Int>(stalls)
    let loop = Loop.main
    let timer = Loop.Timer(after: .milliseconds(5), repeats: true) { _ in
      let end = nanoseconds() + 25e6
      while nanoseconds() < end {}
      if left.subtract(1, ordering: .relaxed).newValue == 0 { loop.stop() }
    }
    loop.add(timer)
    loop.run()
    timer.invalidate()
    monitor.stop()
    let late = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").compactMap { line -> Double? in
      guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
        (object["event"] as? [String: Any])?["name"] as? String == "stall.started",
        let duration = (object["stall"] as? [String: Any])?["duration_ms"] as? Double
      else { return nil }
      return duration - Double(threshold / .milliseconds(1))
    }
    let name = "detection, \(late.count) of \(stalls) stalls"
    return [
      BenchmarkRow(benchmark: name, subject: "past the threshold, p50", value: late.median, unit: "ms"),
      BenchmarkRow(
        benchmark: name, subject: "past the threshold, p99", value: late.percentile(0.99), unit: "ms", bar: 1),
    ]
  }
}
