import Glibc
import StallMonitor

extension AgentSettings {
  /// The settings that override those of a service's monitor; nil keeps the service's own value.
  struct ServiceOverride: Sendable, Equatable {
    /// A glob (fnmatch(3)) for the unit's name, with or without `.service`, or the service's.
    var match = ""
    /// False: the service is not watched.
    var isEnabled: Bool?
    var captures: Tuning.Captures?
    var threshold: Duration?
    var repeatWindow: Duration?
    var budget: Int?
    var sampling: Duration?
    var threads: StallMonitorConfiguration.ThreadSelection.Value?
    var symbolication: Tuning.Symbolication?

    static let keys: [SettingsKey<AgentSettings.ServiceOverride>] = [
      .init(
        "match", \.match, .glob,
        "A glob for the unit name, with or without .service, or for the service name. Required."),
      .init(
        "enabled", optional: \.isEnabled, .bool,
        "Whether the service is watched. false stops samples and reports, true starts them again. A service that is disabled in its own configuration stays disabled."
      ),
      .init(
        "captures", optional: \.captures, .choice,
        "Which threads are sampled. With blocked-only, running threads are not sampled and get no signal or perf event; their stalls are reported without a stack."
      ),
      .init(
        "threshold", optional: \.threshold, .time(StallMonitorConfiguration.allowedThreshold),
        "A turn that takes longer is a stall."),
      .init(
        "repeat_window", optional: \.repeatWindow, .time(StallMonitorConfiguration.allowedRepeatWindow),
        "For this time, the same stall is counted instead of reported again; 0s reports every stall."),
      .init(
        "maximum_reports_per_minute", optional: \.budget, .count(StallMonitorConfiguration.allowedBudget),
        "Stalls that are reported in full per minute; 0 means no limit."
      ).earlier("budget"),
      .init(
        "resample_interval", optional: \.sampling, .time(StallMonitorConfiguration.allowedSampling),
        "The interval between the first two samples of a stall. It doubles up to 1s (or stays at this value if that is longer), and after 40 samples up to 1min."
      ).earlier("sampling"),
      .init("other_threads", optional: \.threads, .choice, "Which other threads' stacks are included in reports.")
        .earlier("threads"),
      .init(
        "symbolication", optional: \.symbolication, .choice, "Whether the agent or the service looks up function names."
      ),
    ]

    func matches(unit: String?, service: String?) -> Bool {
      let suffix = ".service"
      let short = unit.flatMap { $0.hasSuffix(suffix) ? String($0.dropLast(suffix.count)) : nil }
      return [unit, short, service].contains { name in name.map { fnmatch(match, $0, 0) == 0 } ?? false }
    }
  }

  /// The overrides of a service.
  ///
  /// At least one of its names is known; the first overrides that match apply.
  func overrides(unit: String?, service: String?) -> ServiceOverride? {
    services.first { $0.matches(unit: unit, service: service) }
  }
}
