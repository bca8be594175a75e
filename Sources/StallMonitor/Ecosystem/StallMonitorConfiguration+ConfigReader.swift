#if SwiftConfiguration
public import Configuration

extension StallMonitorConfiguration {
  /// Reads a configuration from a `ConfigReader`.
  ///
  /// A key is the name of the property, without the `is` of a Boolean:
  ///
  /// | key | property | value |
  /// |---|---|---|
  /// | `enabled` | ``isEnabled`` | `true` or `false` |
  /// | `threshold` | ``threshold`` | a number with `us`, `ms`, `s`, `min` or `h`, from 1 ms to 1 h |
  /// | `sink` | ``sink-swift.property`` | `stdout`, `file:` and a path, or `agent:` and a path |
  /// | `repeatWindow` | ``repeatWindow`` | a duration up to 1 h |
  /// | `maximumReportsPerMinute` | ``maximumReportsPerMinute`` | a whole number, 0 to 10000 |
  /// | `resampleInterval` | ``resampleInterval`` | a duration, from 10 ms to 1 min |
  /// | `otherThreads` | ``otherThreads`` | `none`, `lock-holder`, `running` or `all` |
  /// | `notifiesSystemdWatchdog` | ``notifiesSystemdWatchdog`` | `true` or `false` |
  /// | `abortAfter`, `writeDetailFileAfter` | ``actions`` | a duration up to 1 h, or `off` |
  /// | `watchesTaskPool` | ``watchesTaskPool`` | `true` or `false` |
  /// | `backgroundTaskThreshold` | ``backgroundTaskThreshold`` | a duration, from 1 ms to 1 h |
  /// | `stateDirectory` | ``stateDirectory`` | an absolute path |
  /// | `serviceName`, `serviceVersion` | ``serviceName``, ``serviceVersion`` | any text |
  ///
  /// Keys are relative to the reader: `config.scoped(to: "stallmonitor")` reads
  /// `stallmonitor.repeatWindow`, and from environment variables `STALLMONITOR_REPEAT_WINDOW`. A
  /// missing key, or an empty text, means the default. Earlier keys are still read: `budget`,
  /// `sampling`, `threads`, `systemdWatchdog`, `detailAfter`, `cooperativePool`. If such a key and
  /// the key that replaces it are both set, ``StallMonitor/start(_:)`` logs that the earlier one is
  /// ignored. ``StallMonitor/start(_:)`` also applies the `STALLMONITOR_` variables, which win over
  /// all of this.
  ///
  /// - Important: A misspelled key is not reported, because a `ConfigReader` cannot list its keys.
  ///   Its `AccessReporter` shows which keys are read.
  ///
  /// - Parameter config: The reader.
  /// - Throws: ``StallMonitorError`` with the code `invalidConfiguration`, whose message names all invalid values.
  public init(config: ConfigReader) throws(StallMonitorError) {
    self.init()
    var variables: [String: String] = [:]
    // A value means the same as in the variable, wherever it comes from.
    for name in MonitorSetting.all.flatMap(\.names) {
      variables[MonitorSetting.variable(of: name)] = config.text(forKey: name)
    }
    let environment = Environment(variables)
    let problems = environment.apply(to: &self)
    replacedKeys = environment.replacedNames()
    guard problems.isEmpty else {
      let texts = problems.map { "\($0.name)=\($0.value) is invalid; allowed: \($0.allowed)" }
      throw StallMonitorError(.invalidKeys(texts.joined(separator: ". ")))
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
