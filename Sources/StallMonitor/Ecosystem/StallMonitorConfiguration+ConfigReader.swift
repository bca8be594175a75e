#if SwiftConfiguration
public import Configuration

extension StallMonitorConfiguration {
  /// Reads a configuration from a `ConfigReader`.
  ///
  /// | key | property | value |
  /// |---|---|---|
  /// | `enabled` | ``isEnabled`` | `true` or `false` |
  /// | `threshold` | ``threshold`` | a number with `us`, `ms`, `s` or `min`, from 1 ms to 1 h |
  /// | `sink` | ``sink-swift.property`` | `stdout`, `file:` and a path, or `agent:` and a path |
  /// | `repeatWindow` | ``repeatWindow`` | a duration up to 1 h |
  /// | `budget` | ``maximumReportsPerMinute`` | a whole number, 0 to 10000 |
  /// | `sampling` | ``resampleInterval`` | a duration, from 10 ms to 1 min |
  /// | `threads` | ``captureThreads`` | `none`, `lock-holder`, `running` or `all` |
  /// | `systemdWatchdog` | ``notifiesServiceManager`` | `true` or `false` |
  /// | `abortAfter`, `detailAfter` | ``actions`` | a duration up to 1 h, or `off` |
  /// | `cooperativePool` | ``watchesCooperativePool`` | `true` or `false` |
  /// | `backgroundTaskThreshold` | ``backgroundTaskThreshold`` | a number with `us`, `ms`, `s` or `min`, from 1 ms to 1 h |
  /// | `stateDirectory` | ``stateDirectory`` | an absolute path |
  /// | `serviceName`, `serviceVersion` | ``serviceName``, ``serviceVersion`` | any text |
  ///
  /// Keys are relative to the reader: `config.scoped(to: "stallmonitor")` reads
  /// `stallmonitor.threshold`, and from environment variables the names that the monitor has there
  /// anyway. A missing key, or an empty text, means the default. ``StallMonitor/start(_:)`` lets
  /// the environment's `STALLMONITOR_` variables win over all of this.
  ///
  /// - Parameter config: The reader.
  /// - Throws: ``StallMonitorKeyError``, with all keys whose values cannot be used.
  public init(config: ConfigReader) throws(StallMonitorKeyError) {
    self.init()
    var variables: [String: String] = [:]
    // A value means the same as in the variable, wherever it comes from.
    for setting in MonitorSetting.all { variables[setting.variable] = config.text(forKey: setting.key) }
    let problems = Environment(variables).apply(to: &self)
    serviceVersion = config.text(forKey: "serviceVersion")
    guard problems.isEmpty else {
      throw StallMonitorKeyError(
        problems: problems.map { problem in
          let key = MonitorSetting.all.first { $0.variable == problem.variable }?.key ?? problem.variable
          return .init(key: key, value: problem.value, allowed: problem.allowed)
        })
    }
  }
}

extension ConfigReader {
  /// The value as text: a file may have a number or a truth value where a variable has text.
  fileprivate func text(forKey key: String) -> String? {
    let key = ConfigKey(stringLiteral: key)
    if let text = string(forKey: key) { return text }
    if let number = int(forKey: key) { return "\(number)" }
    if let number = double(forKey: key) { return "\(number)" }
    if let truth = bool(forKey: key) { return "\(truth)" }
    // No key has a list; it is named as what cannot be used.
    return stringArray(forKey: key).map { "\($0)" } ?? intArray(forKey: key).map { "\($0)" }
  }
}
#endif
