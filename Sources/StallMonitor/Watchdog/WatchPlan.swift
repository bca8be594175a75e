import StallCapture

/// What is in force for loops: the process's own configuration, with the agent's words over it.
struct WatchPlan: Equatable {
  /// Whether the process is watched at all.
  var isEnabled: Bool
  /// Whether threads that run are sampled, and not only those that are blocked.
  var samplesRunningThreads: Bool
  /// In nanoseconds.
  var threshold: UInt64
  var repeatWindow: UInt64
  var budget: Int
  /// In nanoseconds.
  var sampling: UInt64
  var otherThreads: StallMonitorConfiguration.ThreadSelection
  /// Whether this process names the frames of its reports.
  var namesFrames: Bool

  /// `sinkNames`: whether the receiver behind the sink names them by default.
  init(_ configuration: StallMonitorConfiguration, _ tuning: Tuning, sinkNames: Bool) {
    isEnabled = tuning.isEnabled ?? true
    samplesRunningThreads = tuning.captures != .blockedOnly
    threshold = (tuning.threshold ?? configuration.threshold).nanoseconds
    repeatWindow = (tuning.repeatWindow ?? configuration.repeatWindow).nanoseconds
    budget = tuning.budget ?? configuration.maximumReportsPerMinute
    sampling = (tuning.sampling ?? configuration.resampleInterval).nanoseconds
    otherThreads = tuning.otherThreads ?? configuration.otherThreads
    namesFrames = !sinkNames || tuning.symbolication == .host
  }
}
