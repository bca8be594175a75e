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
  public init(config: ConfigReader) throws(StallMonitorKeyError) { self.init() }
}

/// Keys of a configuration that cannot be used.
///
/// Never thrown on this platform.
public struct StallMonitorKeyError: Error, Sendable, Equatable, CustomStringConvertible {
  /// A key and what is wrong with its value.
  public struct Problem: Sendable, Equatable {
    /// The key.
    public var key: String
    /// Its value.
    public var value: String
    /// What is allowed.
    public var allowed: String
  }

  /// What is wrong.
  public var problems: [Problem]

  /// The keys and their values.
  public var description: String { problems.map { "\($0.key)=\($0.value)" }.joined(separator: ". ") }
}
#endif
