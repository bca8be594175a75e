import BenchmarkSupport
import Foundation
import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// What a turn of a loop costs, with and without the monitor, in turn in one run.
///
/// A turn here is a whole one: the loop waits (for a descriptor that is always readable), wakes, calls out, and passes all six
/// activities.
enum TurnCost {
  private static let turns = 100_000
  private static let rounds = 15

  static func run() throws -> [BenchmarkRow] {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0, write(ends[1], "x", 1) == 1 else { throw POSIXError(.EIO) }
    let (descriptor, writer) = (ends[0], ends[1])
    defer {
      close(descriptor)
      close(writer)
    }
    let left = Atomic<Int>(0)
    let loop = Loop.main
    let source = Loop.DescriptorSource(descriptor, for: .readable) { @Sendable _, _ in
      if left.subtract(1, ordering: .relaxed).newValue == 0 { loop.stop() }
    }
    try loop.add(source)
    defer { source.invalidate() }
    func measure() -> Double {
      left.store(turns, ordering: .relaxed)
      let start = nanoseconds()
      loop.run()
      return (nanoseconds() - start) / Double(turns)
    }
    _ = measure()
    let alone = try series(measure)
    // The kernel charges a process for its second thread: a reference to the descriptor table's file is then counted. Services have
    // threads already; a host without pays for the watchdog's.
    let parked = DispatchSemaphore(value: 0)
    Thread.detachNewThread { parked.wait() }
    let threaded = try series(measure)
    parked.signal()
    return [
      BenchmarkRow(benchmark: "turn", subject: "loop alone", value: alone.bare.median, unit: "ns"),
      BenchmarkRow(
        benchmark: "turn", subject: "loop with StallMonitor", value: alone.watched.median, unit: "ns",
        ratio: alone.watched.median / alone.bare.median),
      BenchmarkRow(benchmark: "turn", subject: "added by StallMonitor", value: alone.added, unit: "ns", bar: 30),
      BenchmarkRow(
        benchmark: "turn", subject: "added, service with threads", value: threaded.added, unit: "ns", bar: 30),
    ]
  }

  private struct Series {
    var bare: [Double] = []
    var watched: [Double] = []
    var added: Double { zip(watched, bare).map { $0 - $1 }.median }
  }

  /// Unwatched and watched in turn.
  private static func series(_ measure: () -> Double) throws -> Series {
    var series = Series()
    for _ in 0..<rounds {
      series.bare.append(measure())
      var configuration = StallMonitorConfiguration()
      configuration.sink = .file(path: "/dev/null")
      let monitor = try StallMonitor.start(configuration)
      _ = measure()
      settle()
      series.watched.append(measure())
      monitor.stop()
    }
    return series
  }
}

/// Waits until the monitor has seen that its loop turns and rests.
///
/// Until then it keeps a thread that shares the process's descriptors, for the case that no run loop will ever turn.
func settle() {
  let names = { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? [] }
  for _ in 0..<1000 where names().contains(where: { comm(ofThread: $0) == "stall-beats" }) { usleep(1000) }
}

private func comm(ofThread id: String) -> String? {
  (try? String(contentsOfFile: "/proc/self/task/\(id)/comm", encoding: .utf8))?.trimmingCharacters(in: .newlines)
}
