#if SwiftMetrics
public import CoreMetrics
import StallReport
import Synchronization

extension StallMonitorConfiguration {
  /// Where the monitor counts, such as `MetricsSystem.factory`; nil by default.
  ///
  /// | metric | dimensions | |
  /// |---|---|---|
  /// | `stallmonitor_stalls_total` | `loop`, `cause` | stalls that have ended |
  /// | `stallmonitor_stalled_seconds_total` | `loop`, `cause` | how long they took |
  /// | `stallmonitor_stalls_suppressed_total` | `loop`, `cause` | those of them that were reported in summaries only |
  /// | `stallmonitor_loop_stalled` | `loop` | 1 while a stall is in progress, otherwise 0 |
  /// | `stallmonitor_turn_duration_seconds_bucket` | `loop`, `le` | turns of a `LoopEngine.Loop` that took up to `le` seconds |
  /// | `stallmonitor_turn_duration_seconds_sum`, `…_count` | `loop` | their time, and how many there were |
  ///
  /// The histogram is made of counters, as Prometheus reads them: a `Recorder` takes one value at a time, and a turn
  /// must not cost that. A loop counts its own turns. The monitor exports the counts once a second while the loop
  /// turns. It exports the turns of the last second before the loop became idle with the loop's next turn, so an idle
  /// service is not woken. Lengths are known to within 12.5 %.
  ///
  /// The factory is called on a thread of the monitor's own (`stall-telemetry`); it may wait, for the watchdog does not wait for it. Two
  /// configurations are equal if they have it from the same assignment.
  public var metricsFactory: (any MetricsFactory)? {
    get { (telemetry.meters as? FactoryMeters)?.factory }
    set { telemetry.meters = newValue.map(FactoryMeters.init) }
  }
}

private final class FactoryMeters: StallMeters {
  let factory: any MetricsFactory
  private let loops = Mutex<[String: LoopMeters]>([:])

  init(_ factory: any MetricsFactory) { self.factory = factory }

  func add(_ tally: StallTally) {
    loops.withLock { loops in
      for (name, isStalled) in tally.loops { meters(of: name, in: &loops).stalled.record(isStalled ? 1 : 0) }
      for (name, meters) in loops where tally.loops[name] == nil { meters.stalled.record(0) }
      for (key, count) in tally.counts { meters(of: key.loop, in: &loops).causes[key.cause]?.add(count) }
    }
  }

  func add(_ turns: TurnHistogram, of loop: String) {
    loops.withLock { meters(of: loop, in: &$0).turns(factory).add(turns) }
  }

  private func meters(of loop: String, in loops: inout [String: LoopMeters]) -> LoopMeters {
    if let meters = loops[loop] { return meters }
    let meters = LoopMeters(loop: loop, factory)
    loops[loop] = meters
    return meters
  }
}

// Unchecked: used under a lock, and what the factory makes is thread-safe.
private final class LoopMeters: @unchecked Sendable {
  let stalled: Gauge
  /// All of them from the beginning, so that a rate is known from the first stall on.
  let causes: [Cause: CauseMeters]
  private let loop: String
  private var turnMeters: TurnMeters?

  init(loop: String, _ factory: any MetricsFactory) {
    self.loop = loop
    stalled = Gauge(label: "stallmonitor_loop_stalled", dimensions: [("loop", loop)], factory: factory)
    causes = Dictionary(
      uniqueKeysWithValues: Cause.allCases.map { ($0, CauseMeters(loop: loop, cause: $0, factory)) })
  }

  func turns(_ factory: any MetricsFactory) -> TurnMeters {
    let meters = turnMeters ?? TurnMeters(loop: loop, factory)
    turnMeters = meters
    return meters
  }
}

private struct CauseMeters {
  let ended, suppressed: Counter
  let seconds: FloatingPointCounter

  init(loop: String, cause: Cause, _ factory: any MetricsFactory) {
    let dimensions = [("loop", loop), ("cause", cause.rawValue)]
    ended = Counter(label: "stallmonitor_stalls_total", dimensions: dimensions, factory: factory)
    suppressed = Counter(label: "stallmonitor_stalls_suppressed_total", dimensions: dimensions, factory: factory)
    seconds = FloatingPointCounter(
      label: "stallmonitor_stalled_seconds_total", dimensions: dimensions, factory: factory)
  }

  func add(_ count: StallTally.Count) {
    ended.increment(by: count.ended)
    suppressed.increment(by: count.suppressed)
    seconds.increment(by: Double(count.nanoseconds) / 1e9)
  }
}

private struct TurnMeters {
  private let buckets: [Counter]
  private let count: Counter
  private let seconds: FloatingPointCounter

  init(loop: String, _ factory: any MetricsFactory) {
    let name = "stallmonitor_turn_duration_seconds"
    buckets = (TurnHistogram.bounds.map { "\($0)" } + ["+Inf"]).map {
      Counter(label: name + "_bucket", dimensions: [("loop", loop), ("le", $0)], factory: factory)
    }
    count = Counter(label: name + "_count", dimensions: [("loop", loop)], factory: factory)
    seconds = FloatingPointCounter(label: name + "_sum", dimensions: [("loop", loop)], factory: factory)
  }

  func add(_ turns: TurnHistogram) {
    for (counter, number) in zip(buckets, turns.buckets) { counter.increment(by: number) }
    count.increment(by: turns.buckets.last ?? 0)
    seconds.increment(by: turns.seconds)
  }
}
#endif
