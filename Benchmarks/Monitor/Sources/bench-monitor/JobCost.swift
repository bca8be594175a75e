import BenchmarkSupport
import Dispatch
import Foundation
import Glibc
import StallMonitor

/// What a job of Swift concurrency costs, with and without the monitor, in turn in one run; and how soon a task that holds its thread is found.
enum JobCost {
  private static let rounds = 41

  /// Work that consists of jobs.
  private struct Work: Sendable {
    let name: String
    /// How many jobs a run has: a yield is a job that resumes and one that continues, a new task is one, and its awaiting task continues.
    let jobs: Int
    let run: @Sendable () async -> Void
  }

  private actor Counter {
    var count = 0
    func add() { count += 1 }
  }

  private static let works = [
    Work(name: "Task.yield", jobs: 40_000) { for _ in 0..<20_000 { await Task.yield() } },
    Work(name: "task, awaited", jobs: 40_000) { for _ in 0..<20_000 { await Task.detached {}.value } },
    Work(name: "actor hop, contended", jobs: 20_000) {
      let counter = Counter()
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<4 { group.addTask { for _ in 0..<5000 { await counter.add() } } }
      }
    },
    Work(name: "group of 1000", jobs: 40_000) {
      for _ in 0..<40 {
        await withTaskGroup(of: Void.self) { group in for _ in 0..<1000 { group.addTask {} } }
      }
    },
  ]

  static func run() throws -> [BenchmarkRow] {
    var rows: [BenchmarkRow] = []
    for work in works { rows += try cost(of: work) }
    return try rows + detection()
  }

  private static func cost(of work: Work) throws -> [BenchmarkRow] {
    var (bare, watched): ([Double], [Double]) = ([], [])
    for _ in 0..<rounds {
      _ = measure(work)
      bare.append(measure(work))
      let monitor = try StallMonitor.start(configuration(to: "/dev/null"))
      _ = measure(work)
      watched.append(measure(work))
      monitor.stop()
    }
    let added = zip(watched, bare).map { $0 - $1 }.median
    return [
      BenchmarkRow(benchmark: "job: \(work.name)", subject: "unwatched", value: bare.median, unit: "ns"),
      BenchmarkRow(
        benchmark: "job: \(work.name)", subject: "with StallMonitor", value: watched.median, unit: "ns",
        ratio: watched.median / bare.median),
      BenchmarkRow(
        benchmark: "job: \(work.name)", subject: "added by StallMonitor", value: added, unit: "ns", bar: 40),
    ]
  }

  /// How long a job takes, in nanoseconds; from a thread outside of the pool.
  private static func measure(_ work: Work) -> Double {
    let done = DispatchSemaphore(value: 0)
    let start = nanoseconds()
    Task.detached {
      await work.run()
      done.signal()
    }
    done.wait()
    return (nanoseconds() - start) / Double(work.jobs)
  }

  private static func configuration(to path: String) -> StallMonitorConfiguration {
    var configuration = StallMonitorConfiguration()
    configuration.sink = .file(path: path)
    return configuration
  }

  // MARK: Detection

  private static let threshold = Duration.milliseconds(20)
  private static let stalls = 150

  /// How late a task that blocks is found: what the first line of each stall has beyond the threshold.
  private static func detection() throws -> [BenchmarkRow] {
    let path = NSTemporaryDirectory() + "bench-monitor-\(ProcessInfo.processInfo.processIdentifier).jsonl"
    defer { try? FileManager.default.removeItem(atPath: path) }
    var configuration = configuration(to: path)
    configuration.threshold = threshold
    (configuration.repeatWindow, configuration.maximumReportsPerMinute) = (.zero, 0)
    let monitor = try StallMonitor.start(configuration)
    let done = DispatchSemaphore(value: 0)
    Task.detached {
      for _ in 0..<stalls {
        usleep(40_000)
        try? await Task.sleep(for: .milliseconds(3))
      }
      done.signal()
    }
    done.wait()
    monitor.stop()
    var late: [Double] = []
    for line in try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n") {
      let report = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      let (event, stall) = (report?["event"] as? [String: Any], report?["stall"] as? [String: Any])
      guard event?["name"] as? String == "stall.started", let duration = stall?["duration_ms"] as? Double else {
        continue
      }
      late.append(duration - threshold / .milliseconds(1))
    }
    guard late.count >= stalls else {
      throw BenchmarkError("\(late.count) of \(stalls) tasks that block were reported")
    }
    return [
      BenchmarkRow(benchmark: "task that blocks, p50", subject: "past the threshold", value: late.median, unit: "ms"),
      BenchmarkRow(
        benchmark: "task that blocks, p99", subject: "past the threshold", value: late.percentile(0.99), unit: "ms",
        bar: 1),
    ]
  }
}
