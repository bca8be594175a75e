import Foundation
import Testing

extension Ecosystem {
  /// The monitor as a service of swift-service-lifecycle's.
  struct ServiceTests {
    @Test func gracefulShutdownEndsTheGroupAndWritesOpenReports() throws {
      let victim = try Victim.run(
        here: "service-stalled", environment: ["STALLMONITOR_THRESHOLD": "100ms"], waitingFor: "sibling="
      ) { kill($0.processIdentifier, SIGTERM) }
      #expect(victim.status == 0)
      #expect(victim.facts["sibling"] == "runs")
      #expect(victim.facts["group"] == "ended")
      let ended = try #require(victim.reports.last)
      #expect(ended.event == "stall.ended")
      #expect(ended["stall", "evidence", "watch_ended"] as? Bool == true)
      #expect(ended["loop", "kind"] as? String == "main-queue")
    }

    /// A service that returns would end its group.
    @Test(arguments: ["STALLMONITOR_ENABLED": "false", "STALLMONITOR_THRESHOLD": "fast"])
    func monitorThatDoesNotWatchWaitsForTheShutdown(variable: String, value: String) throws {
      let victim = try Victim.run(here: "service", environment: [variable: value], waitingFor: "sibling=") {
        kill($0.processIdentifier, SIGTERM)
      }
      #expect(victim.facts["sibling"] == "runs")
      #expect(victim.facts["group"] == "ended")
      #expect(victim.reports.isEmpty)
    }

    @Test func unusableConfigurationEndsTheGroupWithItsError() throws {
      let victim = try Victim.run(here: "service-misconfigured")
      #expect(
        victim.talk.contains("group=StallMonitorConfiguration.threshold is 0.0 seconds; allowed: from 1 ms to 1 h"))
    }
  }
}
