import CoreMetrics
import Synchronization

/// Metrics that are kept, and said at the end as `victim: NAME{DIMENSIONS}=VALUE`.
final class MemoryMetrics: MetricsFactory {
  private let values = Mutex<[String: Double]>([:])

  func tell() {
    for (name, value) in values.withLock({ $0 }).sorted(by: { $0.key < $1.key }) { say("\(name)=\(value)") }
  }

  func value(_ name: String) -> Double { values.withLock { $0[name] ?? -1 } }

  private final class Handler: CounterHandler, FloatingPointCounterHandler, RecorderHandler, MeterHandler {
    let name: String
    let metrics: MemoryMetrics

    init(_ label: String, _ dimensions: [(String, String)], _ metrics: MemoryMetrics) {
      name = label + "{" + dimensions.map { "\($0):\($1)" }.joined(separator: ",") + "}"
      self.metrics = metrics
      metrics.values.withLock { $0[name] = $0[name] ?? 0 }
    }

    private func change(_ body: (inout Double) -> Void) { metrics.values.withLock { body(&$0[name, default: 0]) } }
    func increment(by amount: Int64) { change { $0 += Double(amount) } }
    func increment(by amount: Double) { change { $0 += amount } }
    func decrement(by amount: Double) { change { $0 -= amount } }
    func set(_ value: Int64) { change { $0 = Double(value) } }
    func set(_ value: Double) { change { $0 = value } }
    func record(_ value: Int64) { change { $0 = Double(value) } }
    func record(_ value: Double) { change { $0 = value } }
    func reset() { change { $0 = 0 } }
  }

  private final class NoTimer: TimerHandler {
    func recordNanoseconds(_ duration: Int64) {}
  }

  func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    Handler(label, dimensions, self)
  }
  func makeFloatingPointCounter(label: String, dimensions: [(String, String)]) -> any FloatingPointCounterHandler {
    Handler(label, dimensions, self)
  }
  func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler { Handler(label, dimensions, self) }
  func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
    Handler(label, dimensions, self)
  }
  func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { NoTimer() }
  func destroyCounter(_ handler: any CounterHandler) {}
  func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
  func destroyMeter(_ handler: any MeterHandler) {}
  func destroyRecorder(_ handler: any RecorderHandler) {}
  func destroyTimer(_ handler: any TimerHandler) {}
}
