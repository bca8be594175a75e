#if SwiftServiceLifecycle
import Dispatch
public import ServiceLifecycle

/// A service that stops the monitor when its `ServiceGroup` shuts down.
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

  /// Makes a service for a monitor that runs already, so the start of the group is watched, too.
  ///
  /// - Parameter monitor: The monitor, which stops with the group.
  public init(_ monitor: StallMonitor) { source = .running(monitor) }

  /// Makes a service that starts a monitor when the group starts.
  ///
  /// - Parameter configuration: What to watch for; the environment's variables override it.
  public init(_ configuration: StallMonitorConfiguration = StallMonitorConfiguration()) {
    source = .configuration(configuration)
  }

  /// Watches until the group shuts down or is cancelled.
  ///
  /// A monitor that does not watch (disabled, or misconfigured in the environment) also waits for
  /// that: a service that returns ends its group.
  ///
  /// - Throws: As ``StallMonitor/start(_:)``.
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
