import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  @Suite(
    .serialized, .takingTurns(aloneBecause: "samples are counted by the time that passes"))
  struct SamplingTests {
    @Test(
      "a shorter sampling interval gives more samples, a longer one fewer",
      .repeatedAfterStandstills(because: "the number of samples follows from the stall's length"))
    func samples() throws {
      func samples(_ sampling: String?) throws -> Int {
        var environment = ["STALLMONITOR_THRESHOLD": "50ms"]
        environment["STALLMONITOR_SAMPLING"] = sampling
        // A computation has further samples at its beginning. On an emulated processor a sample takes longer than the first
        // intervals.
        let milliseconds = TestMachine.isEmulated ? 16_000 : 900
        let victim = try Victim.run("sleep", milliseconds: milliseconds, environment: environment)
        return try #require(victim.reports.last?["stall", "samples"] as? Int)
      }
      let (often, usual, seldom) = (try samples("10ms"), try samples(nil), try samples("10s"))
      // 10, 20, 40 … 640 ms; 100, 200, 400 ms; only the first one. A busy machine skips some.
      #expect(often > usual)
      #expect(usual > seldom)
      // A stall of 16 s has some more, for its ongoing reports.
      #expect(TestMachine.isEmulated || seldom <= 2)
    }

    @Test("an invalid sampling interval is reported", arguments: ["5ms", "2min", "often", "100"])
    func badValue(value: String) throws {
      let victim = try Victim.run("compute", environment: ["STALLMONITOR_SAMPLING": value])
      #expect(victim.reports.isEmpty)
      #expect(victim.talk.contains("STALLMONITOR_SAMPLING=\(value) is invalid; allowed: "))
    }
  }
}
