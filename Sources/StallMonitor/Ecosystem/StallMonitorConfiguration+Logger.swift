#if SwiftLog
public import Logging

extension StallMonitorConfiguration {
  /// The log for messages about the monitor's own state, instead of standard error; nil by default.
  ///
  /// At `info`: that it started and stopped, and for each loop its kind, as soon as that is known. At
  /// `warning`: problems of the monitor. Stalls go to ``sink-swift.property`` and never to the log. The handler is called on a thread of the monitor's own
  /// (`stall-telemetry`), or within ``StallMonitor/start(_:)`` if nothing is watched; it may wait, for the watchdog does not wait for it.
  ///
  /// Two configurations are equal if they have it from the same assignment.
  public var logger: Logger? {
    get { (telemetry.log as? LoggerStateLog)?.logger }
    set { telemetry.log = newValue.map(LoggerStateLog.init) }
  }
}

private final class LoggerStateLog: StateLog {
  let logger: Logger

  init(_ logger: Logger) { self.logger = logger }

  func write(_ note: StateNote) {
    let level: Logger.Level =
      switch note.level {
      case .info: .info
      case .warning: .warning
      }
    logger.log(
      level: level, "\(note.text)",
      metadata: .init(uniqueKeysWithValues: note.metadata.map { ($0.key, "\($0.value)") }),
      source: "StallMonitor")
  }
}
#endif
