#if SwiftServiceLifecycle
import Dispatch
public import ServiceLifecycle

/// Watches for as long as a `ServiceGroup` runs.
///
/// ```swift
/// let monitor = try StallMonitor.start()
/// let group = ServiceGroup(services: [StallMonitorService(monitor), server], logger: logger)
/// ```
///
/// Put it first: a group shuts its services down from the last to the first, so the shutdown of the
/// others is watched, too. Then the monitor stops, and the reports in progress are written.
public struct StallMonitorService: Service {
  private enum Source: Sendable {
    case running(StallMonitor)
    case configuration(StallMonitorConfiguration)
  }

  private let source: Source

  /// A monitor that was started before the group, and so watches its start, too.
  ///
  /// - Parameter monitor: The monitor, which stops with the group.
  public init(_ monitor: StallMonitor) { source = .running(monitor) }

  /// A monitor that is started with the group.
  ///
  /// - Parameter configuration: What to watch for; the environment's variables override it.
  public init(_ configuration: StallMonitorConfiguration = StallMonitorConfiguration()) {
    source = .configuration(configuration)
  }

  /// Watches until the group shuts down or is cancelled.
  ///
  /// A monitor that does not watch (disabled, or misconfigured in the environment) waits for that all the same: a service that
  /// returns ends its group.
  ///
  /// - Throws: ``StallMonitorError`` if the configuration in code is not usable, or another monitor is active in this
  ///   process.
  public func run() async throws {
    let monitor =
      switch source {
      case .running(let monitor): monitor
      case .configuration(let configuration): try StallMonitor.start(configuration)
      }
    // A cancelled group is to stop, as well.
    try? await gracefulShutdown()
    // It waits for the watchdog: not on a thread of the cooperative pool.
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        monitor.stop()
        continuation.resume()
      }
    }
  }
}
#endif
