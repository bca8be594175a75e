import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Hosts with more loops than the main one, each watched by its name.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"))
  struct SeveralLoopsTests {
    @Test(arguments: Victim.Build.allCases)
    func eachLoopIsReportedByItsNameAndThreshold(build: Victim.Build) throws {
      // The watchdog looks up function names for the first loop before it checks the second one: on
      // a busy machine that takes half a second.
      let milliseconds = TestMachine.stall(1500)
      let victim = try Victim.run("loops", milliseconds: milliseconds, build: build)
      #expect(victim.status == 0)
      let ended = victim.reports("stall.ended")
      #expect(Set(ended.map { $0["loop", "name"] as? String }) == ["alpha", "beta"])
      #expect(ended.count == 2)
      // The main loop has not turned yet at that moment.
      #expect(victim.facts["main_kind"] == "unknown")
      #expect(victim.facts["patient_kind"] == "loop" && victim.facts["patient_thread"] == "true")
      #expect(victim.facts["alpha_threshold"] == "0.1" && victim.facts["patient_threshold"] == "30.0")
      for report in ended {
        #expect(report.culprit.contains("blockByComputing"))
        #expect(report["loop", "kind"] as? String == "loop")
        #expect(report["stall", "threshold_ms"] as? Double == 100)
        #expect(report["thread", "name"] as? String == report["loop", "name"] as? String)
        #expect(report.duration > Double(milliseconds - 10))
      }
    }

    /// The work is in the turn in which the watch begins; or another thread begins the watch while the loop works.
    @Test(arguments: [
      ("watched-then-blocked", "alpha"), ("blocked-then-watched", "alpha"), ("started-in-a-turn", "main"),
      ("started-beside-a-turn", "main"),
    ])
    func watchCountsFromTheCall(scenario: String, name: String) throws {
      let victim = try Victim.run(scenario, milliseconds: TestMachine.stall(600))
      #expect(victim.status == 0)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(ended.culprit.contains("blockByComputing"))
      #expect(ended["loop", "name"] as? String == name)
      #expect(ended["loop", "kind"] as? String == "loop")
      // The others begin the watch after 200 ms of the turn.
      #expect(ended.duration > (["watched-then-blocked", "started-in-a-turn"].contains(scenario) ? 590 : 300))
    }

    @Test func stopDuringAStallIsReported() throws {
      let victim = try Victim.run("loop-stopped")
      #expect(victim.facts["watching"] == "false")
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(ended["stall", "evidence", "watch_ended"] as? Bool == true)
    }

    @Test func loopsWhoseThreadsEndAreReleased() throws {
      let victim = try Victim.run("loop-ends")
      #expect(victim.facts["made"] == "20")
      #expect(victim.facts["watching"] == "0")
      #expect(victim.reports.isEmpty)
    }

    @Test func idleLoopsWakeNoThread() throws {
      let victim = try Victim.run("loops-idle")
      #expect(victim.facts["wakeups"] == "0")
      #expect(victim.reports.isEmpty)
    }

    @Test func errorsAreTypedAndSayWhatIsAllowed() throws {
      let victim = try Victim.run("loop-errors")
      #expect(victim.status == 0)
      let expected = [
        "main": "the loop is already watched as \"main\"",
        "main_name": "another loop is already watched as \"main\"",
        "empty": "the loop's name is \"\"; allowed: 1 to 64 bytes",
        "long": "allowed: 1 to 64 bytes",
        "threshold": "the loop's threshold is 1e-05 seconds; allowed: from 1 ms to 1 h",
        "twice": "the loop is already watched as \"alpha\"",
        "foundation": "this process does not use CoreFoundation",
        "ended": "the thread of the loop \"late\" has exited",
        "ended_again": "the thread of the loop \"late\" has exited",
      ]
      #expect(victim.facts["good"] == "none")
      for (key, words) in expected {
        let line = victim.talk.split(separator: "\n").first { $0.hasPrefix("victim: \(key)=thrown") }
        #expect(line?.contains(words) == true, "\(key): \(line ?? "nothing was thrown")")
      }
    }

    @Test(arguments: ["thread-run-loop", "thread-run-loop-by-handle"])
    func runLoopOfAnotherThreadIsReported(scenario: String) throws {
      let victim = try Victim.run(scenario, program: Victim.Build.debug.executable("FoundationVictim"))
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(ended["loop", "name"] as? String == "worker")
      #expect(ended["loop", "kind"] as? String == "foundation")
      #expect(ended["thread", "id"] as? Int != ended["process", "pid"] as? Int)
      #expect(ended.stack.contains { ($0["symbol"] as? String)?.contains("blockFoundationLoop") == true })
      // Its thread has ended meanwhile.
      #expect(victim.facts["watching"] == "false")
      #expect(victim.facts["name_is_free"] == "true")
      // Asking for the calling thread's run loop would make one.
      if scenario == "thread-run-loop-by-handle" { #expect(victim.facts["opened"] == "0") }
    }
  }
}
