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

  static func run() throws -> [Row] {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0, write(ends[1], "x", 1) == 1 else { throw POSIXError(.EIO) }
    let (descriptor, writer) = (ends[0], ends[1])
    defer {
      close(descriptor)
      close(writer)
    }
    let left = Atomic<Int>(0)
    let loop = Loop.main
    let source = Loop.DescriptorSource(descriptor, for: .readable) { _, _ in
      if left.subtract(1, ordering: .relaxed).newValue == 0 { loop.stop() }
    }
    try loop.add(source)
    defer { source.invalidate() }
    func measure() -> Double {
      left.store(turns, ordering: .relaxed)
      let start = now()
      loop.run()
      return (now() - start) / Double(turns)
    }
    _ = measure()
    var bare: [Double] = []
    var watched: [Double] = []
    for _ in 0..<rounds {
      bare.append(measure())
      var configuration = StallMonitorConfiguration()
      configuration.sink = .file(path: "/dev/null")
      let monitor = try StallMonitor.start(configuration)
      watched.append(measure())
      monitor.stop()
    }
    let added = zip(watched, bare).map { $0 - $1 }.median
    return [
      Row(benchmark: "turn", subject: "loop alone", value: bare.median, unit: "ns"),
      Row(
        benchmark: "turn", subject: "loop with StallMonitor", value: watched.median, unit: "ns",
        ratio: watched.median / bare.median),
      Row(benchmark: "turn", subject: "added by StallMonitor", value: added, unit: "ns", bar: 60),
    ]
  }
}

/// CLOCK_MONOTONIC in nanoseconds.
func now() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}
