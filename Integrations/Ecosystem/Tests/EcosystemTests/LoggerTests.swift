import Logging
import StallMonitor
import Testing

extension Ecosystem {
  /// The monitor's own state goes to the log that a host hands in, and stalls do not.
  struct LoggerTests {
    @Test func logHasTheMonitorsStateAndNoStalls() throws {
      let victim = try Victim.run(here: "stall")
      #expect(victim.log.map(\.level) == ["info", "info", "info"])
      let started = try #require(victim.log.first)
      #expect(started.text.contains("Stall monitor started") && started.text.contains("sink=stdout"))
      #expect(victim.log[1].text.contains("Watching loop main: loop") && victim.log[1].text.contains("thread.id="))
      #expect(victim.log[2].text.contains("Stall monitor stopped"))
      #expect(victim.reports.count { $0.event == "stall.ended" } == 2)
    }

    @Test func chosenLoopIsKnownWhenItHasTurned() throws {
      let victim = try Victim.run(here: "stall")
      #expect(victim.facts["kind"] == "unknown")
      #expect(victim.facts["kind_then"] == "loop")
      let other = try Victim.run(here: "main-queue", environment: ["STALLMONITOR_THRESHOLD": "100ms"])
      #expect(other.facts["kind_then"] == "main-queue")
      #expect(other.log.contains { $0.text.contains("Watching loop main: main-queue") })
    }

    @Test func problemIsAWarningThere() throws {
      let victim = try Victim.run(here: "stall", environment: ["STALLMONITOR_THRESHOLD": "fast"])
      #expect(victim.log.map(\.level) == ["warning"])
      #expect(victim.log.first?.text.contains("STALLMONITOR_THRESHOLD=fast is invalid") == true)
      #expect(!victim.talk.contains("stallmonitor: "), "not on standard error as well")
    }

    @Test func disabledMonitorIsLogged() throws {
      let victim = try Victim.run(here: "stall", environment: ["STALLMONITOR_ENABLED": "false"])
      #expect(victim.log.count == 1)
      #expect(victim.log.first?.text.contains("Stall monitor disabled") == true)
    }

    /// The stalled loop holds the lock that the log waits for.
    @Test func blockedLogKeepsNoStallFromBeingReported() throws {
      let victim = try Victim.run(here: "blocked-log", environment: ["STALLMONITOR_THRESHOLD": "200ms"])
      #expect(victim.status == 0)
      #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
      #expect(victim.talk.contains("log=info"))
    }

    @Test func theSameLogIsAnEqualConfiguration() {
      var configuration = StallMonitorConfiguration()
      configuration.logger = Logger(label: "a")
      #expect(configuration == configuration)
      #expect(configuration != StallMonitorConfiguration())
      #expect(configuration.logger?.label == "a")
    }
  }
}

extension Victim {
  /// The lines of swift-log's handler for standard error: `TIME LEVEL LABEL: METADATA [SOURCE] TEXT`.
  var log: [(level: String, text: String)] {
    talk.split(separator: "\n").filter { $0.contains(" victim:") }.map { line in
      let words = line.split(separator: " ", maxSplits: 2)
      return (String(words[1]), String(words.last ?? ""))
    }
  }
}
