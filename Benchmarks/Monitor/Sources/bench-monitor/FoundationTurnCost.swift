import BenchmarkSupport
import CFoundationTurns
import Foundation
import Glibc
import StallMonitor

/// What a turn of Foundation's main run loop costs more with the monitor, beside what empty observers cost: as many, for the same
/// activities, with callouts in C.
///
/// Processor time. Each process takes many short turns-in-a-row of each kind, one kind after the other, so that a change of the
/// machine's speed meets all of them. A process's numbers are medians, and so are those of several processes.
enum FoundationTurnCost {
  private static let processes = 5
  private static let rounds = 400
  private static let batch = 300

  static func run() throws -> [BenchmarkRow] {
    var alone: [Cost] = []
    var threaded: [Cost] = []
    // The kernel charges a process for its second thread on each use of a descriptor, and a turn has several.
    for _ in 0..<processes {
      alone.append(try Cost(numbers(of: "foundation")))
      threaded.append(try Cost(numbers(of: "foundation-threaded")))
    }
    return rows(threaded, "service with threads") + rows(alone, "service of one thread")
  }

  /// What one process has measured, in nanoseconds a turn.
  private struct Cost {
    var bare: Double
    var empty: Double
    var watched: Double

    init(_ numbers: [Double]) throws {
      guard numbers.count == 3 else { throw POSIXError(.ECHILD) }
      (bare, empty, watched) = (numbers[0], numbers[1], numbers[2])
    }
  }

  private static func rows(_ costs: [Cost], _ host: String) -> [BenchmarkRow] {
    [
      BenchmarkRow(benchmark: "turn", subject: "Foundation's, \(host)", value: costs.map(\.bare).median, unit: "ns"),
      BenchmarkRow(
        benchmark: "turn", subject: "  added by empty observers", value: costs.map(\.empty).median, unit: "ns"),
      BenchmarkRow(
        benchmark: "turn", subject: "  added by StallMonitor", value: costs.map(\.watched).median, unit: "ns"),
      BenchmarkRow(
        benchmark: "turn", subject: "  of what empty observers cost", value: costs.map { $0.watched / $0.empty }.median,
        unit: "times", bar: 1.15),
    ]
  }

  /// The process: prints the time of a turn, what empty observers add, and what the monitor adds.
  static func host(isThreaded: Bool) throws -> Never {
    if isThreaded { Thread.detachNewThread { sleep(3600) } }
    foundation_turns_prepare()
    // CoreFoundation keeps searching for observers of an activity that once had one.
    foundation_turns_observe()
    _ = foundation_turns_run(20_000)
    foundation_turns_stop_observing()
    var bare: [Double] = []
    var empty: [Double] = []
    var watched: [Double] = []
    for round in 0..<rounds {
      if round % 2 == 0 { empty.append(measureEmpty()) } else { watched.append(try measureWatched()) }
      bare.append(measure())
      if round % 2 == 0 { watched.append(try measureWatched()) } else { empty.append(measureEmpty()) }
    }
    print(bare.median, zip(empty, bare).map { $0 - $1 }.median, zip(watched, bare).map { $0 - $1 }.median)
    exit(0)
  }

  private static func measure() -> Double {
    _ = foundation_turns_run(50)
    return foundation_turns_run(batch)
  }

  private static func measureEmpty() -> Double {
    foundation_turns_observe()
    defer { foundation_turns_stop_observing() }
    return measure()
  }

  private static func measureWatched() throws -> Double {
    var configuration = StallMonitorConfiguration()
    configuration.sink = .file(path: "/dev/null")
    let monitor = try StallMonitor.start(configuration)
    defer { monitor.stop() }
    _ = foundation_turns_run(1)
    settle()
    return measure()
  }
}
