extension StallMonitorConfiguration {
  /// Throws if a value set in code cannot be used.
  func check() throws(StallMonitorError) {
    guard Self.allowedThreshold.contains(threshold) else {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "threshold", value: "\(threshold)", allowed: "from \(Self.allowedThreshold.words)"))
    }
    guard Self.allowedThreshold.contains(backgroundTaskThreshold) else {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "backgroundTaskThreshold", value: "\(backgroundTaskThreshold)",
          allowed: "from \(Self.allowedThreshold.words)"))
    }
    guard Self.allowedRepeatWindow.contains(repeatWindow) else {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "repeatWindow", value: "\(repeatWindow)", allowed: Self.allowedRepeatWindow.words))
    }
    guard Self.allowedBudget.contains(maximumReportsPerMinute) else {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "maximumReportsPerMinute", value: "\(maximumReportsPerMinute)", allowed: Self.allowedBudget.words))
    }
    guard Self.allowedSampling.contains(resampleInterval) else {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "resampleInterval", value: "\(resampleInterval)",
          allowed: "from \(Self.allowedSampling.words)"))
    }
    for action in actions where !Self.allowedActionTime.contains(action.after) {
      throw StallMonitorError(
        .invalidConfiguration(key: "actions", value: "\(action)", allowed: "after \(Self.allowedActionTime.words)"))
    }
    if let action = earlyAbort {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "actions", value: "\(action)",
          allowed: "after the threshold (\(threshold)) to \(Self.allowedActionTime.wordsOfUpperBound)"))
    }
    guard Sink("\(sink)") == sink else {
      throw StallMonitorError(.invalidConfiguration(key: "sink", value: "\(sink)", allowed: sink.allowedInCode))
    }
    if let stateDirectory, !stateDirectory.hasPrefix("/") {
      throw StallMonitorError(
        .invalidConfiguration(
          key: "stateDirectory", value: stateDirectory, allowed: MonitorSetting.stateDirectory.allowed))
    }
  }
}

extension StallMonitorConfiguration {
  /// Whether a Unix socket can have this path, wherever the process goes.
  static func isSocketPath(_ path: String) -> Bool {
    path.hasPrefix("/") && path.utf8.count <= longestSocketPath && !path.utf8.contains(0)
  }

  /// Throws if a loop cannot be watched by this name and threshold.
  static func checkLoop(name: String, threshold: Duration?) throws(StallMonitorError) {
    guard allowedLoopName.contains(name.utf8.count),
      name.unicodeScalars.allSatisfy({ $0.value >= 32 && $0.value != 127 })
    else {
      throw StallMonitorError(
        .invalidLoop(
          key: "name", value: "\"\(name.limited(to: 100))\"",
          allowed: "\(allowedLoopName.words) bytes without control characters"))
    }
    if let threshold, !allowedThreshold.contains(threshold) {
      throw StallMonitorError(
        .invalidLoop(key: "threshold", value: "\(threshold)", allowed: "from \(allowedThreshold.words)"))
    }
  }
}

extension StallAction: CustomStringConvertible {
  /// The action and its time: `abort after 30.0 seconds`.
  public var description: String {
    switch kind {
    case .call: "call after \(after)"
    case .writeDetailFile: "writeDetailFile after \(after)"
    case .abort: "abort after \(after)"
    }
  }
}
