import TestSupport
import Testing

extension WatchedHosts {
  /// Turns that are late because of many short pieces of work: none is responsible.
  @Suite(
    .serialized, .takingTurns(aloneBecause: "hosts have turns of many short pieces, which take as long as they should"),
    .repeatedAfterStandstills(because: "the pieces of a turn have to last as long as they say"))
  struct CongestionTests {
    @Test(arguments: Victim.Build.allCases)
    func manyShortCalloutsNameNoFunction(build: Victim.Build) throws {
      let victim = try Victim.run(
        "many-callouts", milliseconds: 900, build: build, environment: ["STALLMONITOR_THRESHOLD": "400ms"])
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(ended["stall", "evidence", "callouts"] as? Int == 302)
      let longest = try #require(ended["stall", "evidence", "longest_callout_ms"] as? Double)
      #expect(longest >= 3)
      // A processor that was taken away makes a long callout of a short one.
      try #require(longest < 200, "this machine paused")
      for report in victim.reports {
        #expect(report["stall", "culprit"] == nil && report["stall", "fingerprint"] == nil)
        #expect(report.stack.isEmpty)
        #expect(["unknown", "starved"].contains(report.cause))
      }
      if ended.cause == "unknown" {
        #expect((ended["message"] as? String ?? "").contains("302 callouts ran, the longest for "))
      }
    }

    @Test(arguments: Victim.Build.allCases)
    func longCalloutAmongShortOnesIsResponsible(build: Victim.Build) throws {
      let victim = try Victim.run(
        "one-of-many-callouts", milliseconds: 900, build: build, environment: ["STALLMONITOR_THRESHOLD": "300ms"])
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.cause == "sleep")
      #expect(ended.culprit.contains("blockBySleeping"))
      #expect(ended["stall", "evidence", "callouts"] as? Int == 103)
      #expect(try #require(ended["stall", "evidence", "longest_callout_ms"] as? Double) >= 900)
    }

    /// Foundation does not say what it calls; the samples do.
    @Test(arguments: Victim.Build.allCases)
    func samplesThatDisagreeNameNoFunction(build: Victim.Build) throws {
      let victim = try Victim.run("main-queue-crowded", build: build, program: build.executable("FoundationVictim"))
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended["stall", "evidence", "samples_disagree"] as? Bool == true)
      #expect(ended["stall", "culprit"] == nil && ended["stall", "fingerprint"] == nil && ended.stack.isEmpty)
    }
  }
}
