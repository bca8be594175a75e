import CUnwind
import Foundation
import Glibc
import TestSupport
import Testing

@testable import StallMonitor

extension WatchedHosts {
  /// The beginning of a computation is known by what its first samples have in common.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "a follow-up comes after a time"))
  struct FollowUpTests {
    @Test(
      "stall.started of a stall on CPU has the fingerprint of stall.ended, if the machine is not overloaded")
    func beginning() throws {
      var missed = 0
      for _ in 0..<6 {
        let victim = try Victim.run(
          "c-compute-in-parts", milliseconds: 700, environment: ["STALLMONITOR_THRESHOLD": "100ms"])
        #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
        let (started, ended) = (try #require(victim.reports.first), try #require(victim.reports.last))
        let samples = try #require(started["stall", "samples"] as? Int)
        #expect((1...5).contains(samples))
        // The line has the time of the first sample.
        #expect(started.duration < 120 || (started["stall", "evidence", "run_delay_ms"] as? Double ?? 0) > 1)
        guard samples >= 3 else {
          let (delay, observed) = (
            ended["stall", "evidence", "run_delay_ms"], ended["stall", "evidence", "observed_ms"]
          )
          if (delay as? Double ?? .infinity) < (observed as? Double ?? 0) / 50 { missed += 1 }
          continue
        }
        // With less than a whole processor, the first samples are not spread over the computation.
        guard started["stall", "evidence", "run_delay_ms"] as? Double ?? .infinity < 1 else { continue }
        #expect(started["stall", "fingerprint"] as? String == ended["stall", "fingerprint"] as? String)
        return
      }
      // A timer's samples take a tick of the kernel's clock each, and an emulated processor is slow.
      #expect(
        missed < 3 || !cunwind_perf_is_permitted() || TestMachine.isEmulated,
        "the thread had the processor all the time, and was hardly looked at")
    }

    @Test func rareSamplesStayRare() throws {
      let victim = try Victim.run(
        "c-compute-in-parts", milliseconds: 400,
        environment: ["STALLMONITOR_THRESHOLD": "100ms", "STALLMONITOR_SAMPLING": "10s"])
      #expect(victim.reports.map { $0["stall", "samples"] as? Int } == [1, 1])
    }
  }
}
