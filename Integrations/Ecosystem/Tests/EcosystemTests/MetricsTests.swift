import MetricsTestKit
import StallMonitor
import Testing

extension Ecosystem {
  /// What a host that hands metrics in finds there.
  struct MetricsTests {
    private let turns = "stallmonitor_turn_duration_seconds"

    @Test func stallsAreCountedByLoopAndCause() throws {
      let victim = try Victim.run(here: "stall", environment: ["STALLMONITOR_REPEAT_WINDOW": "30s"])
      #expect(victim.metric("stallmonitor_stalls_total{loop:main,cause:sleep}") == 2)
      let seconds = try #require(victim.metric("stallmonitor_stalled_seconds_total{loop:main,cause:sleep}"))
      #expect(seconds > 0.89 && seconds < 5)
      // Two places: the loop's block is not the same.
      let told = victim.reports.count { $0.event == "stall.ended" }
      #expect(victim.metric("stallmonitor_stalls_suppressed_total{loop:main,cause:sleep}") == Double(2 - told))
      #expect(victim.metric("stallmonitor_stalls_total{loop:main,cause:lock}") == 0, "all causes are there at once")
      #expect(victim.metric("stallmonitor_loop_stalled{loop:main}") == 0)
    }

    @Test func repetitionsAreCountedAsSuppressed() throws {
      let victim = try Victim.run(here: "repeated", environment: ["STALLMONITOR_REPEAT_WINDOW": "30s"])
      #expect(victim.reports.count { $0.event == "stall.ended" } == 1)
      #expect(victim.metric("stallmonitor_stalls_total{loop:main,cause:sleep}") == 3)
      #expect(victim.metric("stallmonitor_stalls_suppressed_total{loop:main,cause:sleep}") == 2)
      #expect(victim.facts["stalled_meanwhile"] == "true")
    }

    @Test func turnsAreAHistogram() throws {
      let victim = try Victim.run(here: "stall")
      let count = try #require(victim.metric("\(turns)_count{loop:main}"))
      #expect(count >= 3)
      #expect(victim.metric("\(turns)_bucket{loop:main,le:+Inf}") == count)
      #expect(
        victim.metric("\(turns)_bucket{loop:main,le:0.25}").map { $0 <= count - 2 } == true, "two turns took longer")
      let sum = try #require(victim.metric("\(turns)_sum{loop:main}"))
      #expect(sum > 0.89 && sum < 5)
    }

    @Test func turnIsCountedOnceAcrossMonitors() throws {
      let victim = try Victim.run(here: "again")
      let count = try #require(victim.metric("\(turns)_count{loop:main}"))
      #expect(count >= 198 && count <= 280, "\(count)")
    }

    @Test func idleServiceIsNotWoken() throws {
      let victim = try Victim.run(here: "idle")
      #expect(victim.facts["wakeups"] == "0")
      #expect(victim.facts["switches"] == "0")
    }

    @Test func factoryIsReturned() {
      var configuration = StallMonitorConfiguration()
      let metrics = TestMetrics()
      configuration.metricsFactory = metrics
      #expect(configuration.metricsFactory as? TestMetrics === metrics)
      configuration.metricsFactory = nil
      #expect(configuration == StallMonitorConfiguration())
    }
  }
}

extension Victim {
  func metric(_ name: String) -> Double? { facts[name].flatMap(Double.init) }
}
