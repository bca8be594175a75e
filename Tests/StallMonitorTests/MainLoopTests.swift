import TestSupport
import Testing

extension WatchedHosts {
  /// The main loop announces itself, and a monitor finds it whichever of the two is there first.
  @Suite(.serialized, .takingTurns)
  struct MainLoopTests {
    /// `compute` makes the loop after the monitor has started.
    @Test(arguments: ["compute", "main-loop-first", "main-loop-made-elsewhere"])
    func mainLoopIsWatchedWheneverItIsMade(scenario: String) throws {
      let victim = try Victim.run(scenario, milliseconds: TestMachine.stall(600))
      #expect(victim.status == 0)
      let ended = victim.reports("stall.ended")
      #expect(ended.count == 1)
      let report = try #require(ended.first)
      #expect(report.culprit.contains("blockByComputing"))
      #expect(report["loop", "name"] as? String == "main")
      #expect(report["loop", "kind"] as? String == "loop")
      #expect(report["loop", "mode"] as? String == "default")
      #expect((report["loop", "callout"] as? String)?.hasPrefix("timer \"victim\" (StallVictim/main.swift:") == true)
      #expect(report["thread", "id"] as? Int == report["process", "pid"] as? Int)
    }

    /// What a stopped monitor waited for is not watched by it, and the next monitor finds it.
    @Test func stoppedMonitorDoesNotWatchALoopThatIsMadeLater() throws {
      let victim = try Victim.run("main-loop-between", milliseconds: TestMachine.stall(600))
      #expect(victim.status == 0)
      #expect(victim.reports("stall.ended").count == 1)
      #expect(TestMachine.named(victim.reports).allSatisfy { $0.culprit.contains("hidden_c_computation") })
    }
  }
}
