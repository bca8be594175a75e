import StallDetection
import StallReport
import TestSupport
import Testing

@testable import StallMonitor

/// A service's recorded turns, replayed to the watchdog's driver in virtual time.
struct ReplayTests {
  private static let threshold: UInt64 = 900_000_000

  @Test func recordedServiceHasTheseStallsAndNoOthers() throws {
    let recorded = try RecordedTurns()
    let service = VirtualService()
    let loop = service.loop("main", threshold: Self.threshold)
    recorded.plan(in: service, loop: loop, from: service.time)
    let start = service.time.nanoseconds / 1_000_000
    let ended = service.run().filter { $0.event == "stall.ended" }
    let main = ended.filter { $0.loop == "main" }
    // Each line is one that the recording has: see `Fixtures/turns.txt`.
    #expect(
      main.map { "\($0.began - start) \($0.duration) \($0.cause)" } == [
        "622810 1828 starved", "900166 1508 lock", "1100766 1477 starved", "1500682 3012 sleep", "1701186 1354 starved",
        // The process was stopped during this turn, and continued before the watchdog's next check: the stop is not proven, and not deducted.
        "2500906 2704 starved",
        "2727046 1012 starved", "2734357 970 starved", "2740478 950 starved", "2741450 1297 starved",
        "2774531 927 starved", "3200808 1518 starved", "3400570 88124 starved",
      ])
    // 5 s, of which the watchdog was to sleep for a while.
    #expect(ended.filter { $0.loop == "process" }.map { "\($0.duration) \($0.cause)" } == ["4643 stopped"])
  }
}
