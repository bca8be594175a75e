import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Hosts on Foundation's run loop, watched with the one line that a host on ours has.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"))
  struct FoundationHostTests {
    private func run(_ scenario: String, build: Victim.Build = .usual) throws -> Victim {
      try Victim.run(scenario, build: build, program: build.executable("FoundationVictim"))
    }

    @Test(arguments: Victim.Build.allCases, ["compute", "main-queue", "after-nested", "late", "at-once"])
    func stallIsReportedWithItsFunction(build: Victim.Build, scenario: String) throws {
      let victim = try run(scenario, build: build)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(victim.facts["descriptors"] == "0", "the monitor opened some in the service")
      #expect(ended["loop", "kind"] as? String == "foundation")
      #expect(ended["loop", "name"] as? String == "main")
      let host = ended.stack.compactMap { $0["symbol"] as? String }
      #expect(host.contains { $0.contains("blockFoundationLoop") }, "\(ended)")
      #expect(ended.culprit.contains("blockFoundationLoop") || ended.culprit.contains("compute"))
      #expect(ended.duration > 450 && ended.duration < 1500)
      // The monitor may find a run loop only in its first callout. On a busy machine it may find it before that.
      let isFromItsBeginning = (ended["message"] as? String)?.contains("for at least") == false
      #expect(isFromItsBeginning || scenario == "at-once")
      #expect(!isFromItsBeginning || ended.duration >= 499)
    }

    @Test func sleepIsReportedAsSleep() throws {
      let ended = try #require(run("sleep").reports("stall.ended").first)
      #expect(ended.cause == "sleep")
      #expect(ended.culprit.contains("sleepOnFoundationLoop"))
    }

    @Test(arguments: ["busy", "nested-common"])
    func healthyHostIsNotReported(scenario: String) throws {
      #expect(try run(scenario).reports.isEmpty)
    }

    /// No observer in the common modes sees it; the stack at the threshold shows it.
    @Test(arguments: Victim.Build.allCases)
    func nestedRunInAPrivateModeIsNoStall(build: Victim.Build) throws {
      let victim = try run("nested-private", build: build)
      #expect(victim.reports.isEmpty)
      #expect(victim.talk.contains("runs in a private mode, which is not watched"))
    }

    @Test func onlyARunLoopIsWatchedAsOne() throws {
      let victim = try run("no-run-loop")
      #expect(victim.status == 0 && victim.facts["watched"] == nil)
      for type in ["RunLoop", "NSString", "__NSCFType", "StallMonitor"] {
        #expect(victim.facts[type] == "invalidLoop", "\(type)")
      }
      #expect(victim.talk.contains("the loop's class is RunLoop; allowed: a CFRunLoop, such as CFRunLoopGetCurrent()"))
    }

    @Test(arguments: ["idle", "idle-late"])
    func idleServiceWakesNoThread(scenario: String) throws {
      let victim = try run(scenario)
      #expect(victim.facts["wakeups"] == "0")
      #expect(victim.facts["kind"] == "foundation")
      #expect(victim.reports.isEmpty)
    }
  }
}
