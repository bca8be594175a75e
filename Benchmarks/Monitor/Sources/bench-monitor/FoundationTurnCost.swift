import Foundation
import StallMonitor
import Synchronization

/// What a turn of Foundation's main run loop costs more with the monitor: unwatched and watched in turn, in one run.
///
/// Each turn waits: what is performed wakes the loop for the next one.
enum FoundationTurnCost {
  private static let turns = 20_000
  private static let rounds = 15

  static func run() throws -> [Row] {
    // As in any service that has Foundation there is another thread; see ``TurnCost``.
    let parked = DispatchSemaphore(value: 0)
    Thread.detachNewThread { parked.wait() }
    defer { parked.signal() }
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
    return [
      Row(benchmark: "turn", subject: "Foundation's run loop alone", value: bare.median, unit: "ns"),
      Row(
        benchmark: "turn", subject: "Foundation's with StallMonitor", value: watched.median, unit: "ns",
        ratio: watched.median / bare.median),
      Row(
        benchmark: "turn", subject: "added to Foundation's", value: zip(watched, bare).map { $0 - $1 }.median,
        unit: "ns",
        bar: 60),
    ]
  }

  private final class Count: Sendable {
    let left = Atomic<Int>(turns)
    let isDone = Atomic<Bool>(false)
  }

  private static func measure() -> Double {
    let count = Count()
    @Sendable func turn() {
      if count.left.subtract(1, ordering: .relaxed).newValue == 0 {
        // A run returns for the main queue, and for nothing that is performed.
        DispatchQueue.main.async { count.isDone.store(true, ordering: .relaxed) }
      } else {
        RunLoop.main.perform { turn() }
      }
    }
    RunLoop.main.perform { turn() }
    let start = now()
    while !count.isDone.load(ordering: .relaxed), RunLoop.main.run(mode: .default, before: .distantFuture) {}
    return (now() - start) / Double(turns)
  }
}
