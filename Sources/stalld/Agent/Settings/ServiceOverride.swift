import Glibc
import StallMonitor

extension AgentSettings {
  /// What a service's monitor is told instead of its own settings; nil leaves it what it has.
  struct ServiceOverride: Sendable, Equatable {
    /// A glob (fnmatch(3)) for the unit's name, with or without `.service`, or the service's.
    var match = ""
    /// False: the service is not watched.
    var isEnabled: Bool?
    var captures: Captures?
    var threshold: Duration?
    var repeatWindow: Duration?
    var budget: Int?
    var sampling: Duration?
    var threads: StallMonitorConfiguration.ThreadSelection?
    var symbolication: Symbolicator?

    static let keys: [SettingsKey<AgentSettings.ServiceOverride>] = [
      .init(
        "match", \.match, .glob,
        "Which services: a glob for the unit's name, with or without .service, or the service's name. Needed."),
      .init(
        "enabled", optional: \.isEnabled, .bool,
        "Whether the service is watched. With no, it takes no samples and sends no reports; with yes, it resumes. A service whose own configuration says no is not affected."
      ),
      .init(
        "captures", optional: \.captures, .choice,
        "Whose stacks are taken. With blocked-only no thread that runs is sampled, so none gets a signal or a perf event: such stalls are reported without a stack."
      ),
      .init(
        "threshold", optional: \.threshold, .time(.milliseconds(1) ... .seconds(3600)),
        "How long a turn may take before it is a stall."),
      .init(
        "repeat_window", optional: \.repeatWindow, .time(.zero ... .seconds(3600)),
        "How long a stall that has been told is counted instead of told again; 0s tells each."),
      .init("budget", optional: \.budget, .count(0...10000), "Stalls told in full a minute; 0 is no limit."),
      .init(
        "sampling", optional: \.sampling, .time(.milliseconds(10) ... .seconds(60)),
        "How long after the first look at a stall the second one comes; then it doubles."),
      .init("threads", optional: \.threads, .choice, "Which other threads reports tell of."),
      .init("symbolication", optional: \.symbolication, .choice, "Who looks names up."),
    ]

    /// Which threads' stacks are taken.
    enum Captures: String, Sendable, Equatable, CaseIterable {
      case all
      case blockedOnly = "blocked-only"
    }

    /// Who looks names up.
    enum Symbolicator: String, Sendable, Equatable, CaseIterable { case agent, host }

    func matches(unit: String?, service: String?) -> Bool {
      let suffix = ".service"
      let short = unit.flatMap { $0.hasSuffix(suffix) ? String($0.dropLast(suffix.count)) : nil }
      return [unit, short, service].contains { name in name.map { fnmatch(match, $0, 0) == 0 } ?? false }
    }
  }

  /// The overrides of a service, of which at least one name is known; the first that match count.
  func overrides(unit: String?, service: String?) -> ServiceOverride? {
    services.first { $0.matches(unit: unit, service: service) }
  }
}
