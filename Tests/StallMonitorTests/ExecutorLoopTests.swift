import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// A loop of the service's own, which is watched by heartbeats.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "heartbeats are answered within a threshold"))
  struct ExecutorLoopTests {
    @Test func stallIsReportedWithItsFunction() throws {
      let victim = try Victim.run("executor-stall", milliseconds: 900)
      #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
      for report in victim.reports {
        #expect(report.culprit.contains("blockBySleeping()"))
        #expect(report["loop", "name"] as? String == "jobs")
        #expect(report["loop", "kind"] as? String == "executor")
        #expect(report["loop", "phase"] as? String == "heartbeat")
        #expect(report["thread", "name"] as? String == "jobs")
      }
      let ended = try #require(victim.reports.last)
      // It counts from the beat, which comes within one threshold.
      #expect(ended.duration >= 900 - 250 - 100)
      #expect((ended["message"] as? String)?.contains("blocked for at least") == true)
      #expect(victim.facts["errno"] == "0", "the call is not interrupted")
    }

    @Test func threadThatEndsIsReleased() throws {
      let victim = try Victim.run("executor-ends", milliseconds: 600, environment: ["STALLMONITOR_THRESHOLD": "20ms"])
      #expect(victim.reports.isEmpty)
      // A beat each 20 ms would be 25. The watchdog still looks for a loop of the main thread, ever more seldom.
      let wakeUps = try #require(victim.facts["wakeups"].flatMap { Int($0) })
      #expect(wakeUps < 10, "nothing is left to watch")
    }

    @Test func mainThreadThatEndsIsReleased() throws {
      let victim = try Victim.run(
        "executor-on-the-main-thread-ends", milliseconds: 800, environment: ["STALLMONITOR_THRESHOLD": "50ms"])
      #expect(victim.reports.isEmpty && victim.facts["watched"] == "false", "\(victim.reports.map(\.event))")
    }

    @Test func stallThatItsThreadEndsInIsClosed() throws {
      let victim = try Victim.run("executor-ends-in-stall", milliseconds: 700)
      #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
      #expect(victim.reports.last?.culprit.contains("blockBySleeping()") == true)
      #expect(victim.reports.last?["stall", "evidence", "watch_ended"] == nil, "it ended before the watch did")
    }

    @Test(arguments: ["executor-let-go", "executor-moves", "executor-paused"])
    func loopThatIsNotToBeWatchedIsNot(scenario: String) throws {
      let victim = try Victim.run(scenario, milliseconds: 500, environment: ["STALLMONITOR_THRESHOLD": "100ms"])
      #expect(victim.facts["errno"] == "0")
      #expect(victim.reports.isEmpty)
      if scenario == "executor-let-go" { #expect(victim.facts["watched"] == "true,false") }
    }

    @Test func nameThatNoLoopHasIsLoggedOnce() throws {
      let victim = try Victim.run("executor-paused", milliseconds: 100)
      let lines = victim.talk.split(separator: "\n").filter { $0.contains("expectSlow") }
      #expect(lines.count == 1, "\(victim.talk)")
      #expect(lines.first?.contains(#"(on: "jbos") has no effect: no watched loop has this name"#) == true)
      #expect(lines.first?.contains("jobs") == true)
    }

    /// Slow work that is expected of one loop leaves the others watched.
    @Test func expectedWorkOfAnotherLoopDoesNotHideAStall() throws {
      let victim = try Victim.run("executor-stalls-beside", milliseconds: 900)
      #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
      #expect(victim.reports.allSatisfy { $0["loop", "name"] as? String == "jobs" })
    }

    /// A service that an operator switches the monitor off for runs on; mistakes in its code are still found.
    @Test func monitorThatDoesNotWatchTakesLoops() throws {
      for environment in [[:], ["STALLMONITOR_ENABLED": "false"], ["STALLMONITOR_THRESHOLD": "soon"]] {
        let victim = try Victim.run("loops-unwatched", environment: environment)
        #expect(victim.status == 0 && victim.reports.isEmpty)
        #expect(victim.facts["watching"] == "false")
        #expect(victim.facts["current"] == "\(environment.isEmpty),false")
        #expect(victim.facts["code"] == "invalidLoop")
        if environment.isEmpty { #expect(victim.talk.contains("reason:none:the monitor was stopped")) }
      }
    }

    /// The stall record that the process ends in is kept for this kind too.
    @Test func stallThatTheProcessIsKilledInIsReportedByTheNextStart() throws {
      let state = try ScratchDirectory.inMemory()
      let environment = ["STALLMONITOR_STATE_DIRECTORY": state.path]
      let killed = try Victim.run("executor-killed", milliseconds: 600, environment: environment)
      #expect(killed.status == SIGKILL)
      let next = try Victim.run("never-runs", milliseconds: 300, environment: environment)
      let fatal = try #require(next.reports("stall.fatal").first)
      #expect(fatal.culprit.contains("blockBySleeping()"))
      #expect(fatal["loop", "name"] as? String == "jobs")
    }
  }
}
