import Foundation

/// The monitor on a platform that it does not support: it watches nothing, and logs that once.
///
/// It has the API of the monitor for Linux, so that a service builds and runs on every platform.
public final class StallMonitor: Sendable {
  /// The configuration that the monitor was started with.
  public let configuration: StallMonitorConfiguration

  private init(_ configuration: StallMonitorConfiguration) { self.configuration = configuration }

  private static let problem = "the stall monitor is not supported on this platform"
  private static let note = "\(problem). The service runs and is not watched"
  // Evaluated once.
  private static let standardErrorNote: Void = FileHandle.standardError.write(Data("stallmonitor: \(note)\n".utf8))

  /// Checks the configuration and logs, once, that nothing is watched.
  ///
  /// - Parameter configuration: What to watch for.
  /// - Returns: A monitor that does not watch.
  /// - Throws: ``StallMonitorError`` if the configuration is not usable on Linux.
  @discardableResult
  public static func start(
    _ configuration: StallMonitorConfiguration = StallMonitorConfiguration()
  ) throws(StallMonitorError) -> StallMonitor {
    try configuration.check()
    if let log = configuration.telemetry.log {
      log.write(StateNote(level: .warning, text: note))
    } else {
      standardErrorNote
    }
    return StallMonitor(configuration)
  }

  /// Nil.
  public static var current: StallMonitor? { nil }

  /// False.
  public var isWatching: Bool { false }

  /// That the platform is not supported.
  public var notWatchingReason: String? { Self.problem }

  /// Empty.
  public var watchedLoops: [WatchedLoopStatus] { [] }

  /// Does nothing.
  public func pause() {}

  /// Does nothing.
  public func resume() {}

  /// Runs the body.
  public func expectSlow<Result, Failure: Error>(
    on loop: String? = nil, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result { try body() }

  /// Runs the body.
  public func expectSlow<Result, Failure: Error>(
    on loop: String? = nil, isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result { try await body() }

  /// Returns no threads.
  public static func captureAllThreads(timeLimit: Duration = .seconds(5)) -> [ThreadBacktrace] { [] }

  /// Does nothing.
  public func stop() {}

  /// Checks the description, and watches nothing.
  @discardableResult
  public func watchCurrentThread(as loop: LoopDescription) throws(StallMonitorError) -> LoopWatch {
    try loop.validate()
    return LoopWatch(name: loop.name, threshold: loop.threshold ?? configuration.threshold)
  }

  /// Checks name and threshold, and watches nothing.
  @discardableResult
  public func watch(
    coreFoundationRunLoop runLoop: AnyObject, name: String, threshold: Duration? = nil
  ) throws(StallMonitorError) -> LoopWatch { try unwatched(name: name, threshold: threshold) }

  /// Checks name and threshold, and watches nothing.
  @discardableResult
  public func watchCurrentCoreFoundationRunLoop(
    name: String, threshold: Duration? = nil
  ) throws(StallMonitorError) -> LoopWatch { try unwatched(name: name, threshold: threshold) }

  private func unwatched(name: String, threshold: Duration?) throws(StallMonitorError) -> LoopWatch {
    try StallMonitorConfiguration.checkLoop(name: name, threshold: threshold)
    return LoopWatch(name: name, threshold: threshold ?? configuration.threshold)
  }
}

/// A loop that would be watched on Linux.
public final class LoopWatch: Sendable {
  /// The loop's name.
  public let name: String
  /// The loop's threshold.
  public let threshold: Duration
  /// False.
  public var isWatching: Bool { false }

  init(name: String, threshold: Duration) {
    self.name = name
    self.threshold = threshold
  }

  /// Does nothing.
  public func stop() {}
}
