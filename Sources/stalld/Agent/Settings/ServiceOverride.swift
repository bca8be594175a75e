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
