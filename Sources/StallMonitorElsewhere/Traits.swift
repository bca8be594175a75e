// What traits add to the configuration. Values are kept, and nothing reads them but the log.

#if SwiftMetrics
public import CoreMetrics

extension StallMonitorConfiguration {
  /// Where metrics would go.
  public var metricsFactory: (any MetricsFactory)? {
    get { (telemetry.meters as? FactoryMeters)?.factory }
    set { telemetry.meters = newValue.map(FactoryMeters.init) }
  }
}

private final class FactoryMeters: StallMeters {
  let factory: any MetricsFactory
  init(_ factory: any MetricsFactory) { self.factory = factory }
  func add(_ tally: StallTally) {}
  func add(_ turns: TurnHistogram, of loop: String) {}
}
#endif

#if SwiftConfiguration
public import Configuration

extension StallMonitorConfiguration {
  /// Makes the default configuration: nothing is watched on this platform, so no key is read.
  public init(config: ConfigReader) throws(StallMonitorError) { self.init() }
}
#endif
