/// The settings in force: the process's own, with what an agent has sent over them.
///
/// Belongs to the watchdog's thread.
final class SettingsFollower {
  private let configuration: StallMonitorConfiguration
  private let tunings: TuningBox
  // What all loops share by which they are ignored.
  private let suspension: Suspension
  private let sinkNames: Bool
  private let list: WatchList
  /// What is in force.
  private(set) var plan: WatchPlan

  /// - Parameters:
  ///   - configuration: The process's own settings.
  ///   - tunings: Where an agent's arrive.
  ///   - suspension: What switches the watch of all loops off.
  ///   - sinkNames: Whether the receiver behind the sink names frames by default.
  ///   - list: The loops that the settings hold for.
  init(
    _ configuration: StallMonitorConfiguration, tunings: TuningBox, suspension: Suspension, sinkNames: Bool,
    list: WatchList
  ) {
    self.list = list
    self.configuration = configuration
    self.tunings = tunings
    self.suspension = suspension
    self.sinkNames = sinkNames
    plan = WatchPlan(configuration, Tuning(), sinkNames: sinkNames)
  }

  /// Applies the settings that an agent has sent since the last call.
  ///
  /// A process that is switched off has nothing open and nothing counted that is not reported.
  func update(_ loops: [WatchedLoop], with stalls: StallFollower) {
    guard let tuning = tunings.take() else { return }
    let new = WatchPlan(configuration, tuning, sinkNames: sinkNames)
    if plan.isEnabled, !new.isEnabled {
      suspension.switchOff()
      stalls.finish(loops)
      stalls.sink.summarize()
    }
    if !plan.isEnabled, new.isEnabled { suspension.switchOn() }
    plan = new
    list.agentThreshold.store(new.threshold, ordering: .relaxed)
    stalls.sampler.samplesRunningThreads = new.samplesRunningThreads
    stalls.sink.tune(window: new.repeatWindow, budget: new.budget)
    for loop in loops { loop.tune(to: new) }
  }
}
