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
      // On an emulated processor a sample takes longer than the first of the usual intervals.
      let scale = TestMachine.isEmulated ? 16 : 1
      // A computation has further samples at its beginning.
      func samples(every milliseconds: Int) throws -> Int {
        let victim = try Victim.run(
          "sleep", milliseconds: scale * 900,
          environment: ["STALLMONITOR_THRESHOLD": "50ms", "STALLMONITOR_SAMPLING": "\(milliseconds)ms"])
        return try #require(victim.reports.last?["stall", "samples"] as? Int)
      }
      let often = try samples(every: 10 * scale)
      let usual = try samples(every: 100 * scale)
      let seldom = try samples(every: 10_000)
      // Some 14, some 8, and the first one. A busy machine skips some.
      #expect(often > usual)
      #expect(usual > seldom)
      // A longer stall has some more, for its ongoing reports.
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
