import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Threads that wait for each other in a circle: said so, with all of them.
  @Suite(
    .serialized, .takingTurns, .timeLimit(.minutes(2)))
  struct DeadlockTests {
    // An emulated processor takes a second to find out who waits for whom, and their names.
    private static let milliseconds = TestMachine.isEmulated ? 6000 : 500

    @Test(arguments: [1, 2, 5])
    func circleOfMutexesIsADeadlock(count: Int) throws {
      let victim = try Victim.run(
        "deadlock", milliseconds: Self.milliseconds,
        environment: ["VICTIM_LOCK": "\(count)", "STALLMONITOR_THRESHOLD": "50ms"])
      // On a busy machine, the first report may lack the names by which holders are judged.
      try expectCircle(count, in: try #require(victim.reports.last))
    }

    /// The main thread waits for a queue or a loop that waits for the main thread's.
    @Test(arguments: ["deadlock-of-queues", "deadlock-of-loops"])
    func circleOfQueuesOrLoopsIsADeadlock(scenario: String) throws {
      let victim = try Victim.run(
        scenario, milliseconds: TestMachine.isEmulated ? Self.milliseconds : 600,
        environment: ["STALLMONITOR_THRESHOLD": "50ms"])
      try expectCircle(2, in: try #require(victim.reports.last))
    }

    private func expectCircle(_ count: Int, in report: WrittenReport) throws {
      let circle = try #require(report["stall", "evidence", "deadlock"] as? [Int])
      #expect(circle.count == count)
      #expect(Set(circle).count == count)
      let main = try #require(report["thread", "id"] as? Int)
      #expect(circle.first == main)
      // Each waits for the next.
      #expect(report["stall", "evidence", "lock_holder"] as? Int == circle[count > 1 ? 1 : 0])
      let threads = report["threads"] as? [[String: Any]] ?? []
      #expect(threads.map { $0["id"] as? Int } == Array(circle.dropFirst()))
      #expect(threads.allSatisfy { $0["role"] as? String == "lock_holder" && !(($0["stack"] as? [Any]) ?? []).isEmpty })
      let message = try #require(report["message"] as? String)
      #expect(message.contains("deadlock: thread \(main) waits for \(count > 1 ? "\(circle[1])" : "itself")"))
    }

    /// A chain with an end is none.
    @Test func lockThatIsHeldForLongIsNoDeadlock() throws {
      let victim = try Victim.run(
        "lock", milliseconds: 300,
        environment: ["VICTIM_LOCK": "mutex", "STALLMONITOR_THRESHOLD": "50ms"])
      #expect(victim.reports.count == 2)
      #expect(victim.reports.allSatisfy { $0["stall", "evidence", "deadlock"] == nil })
    }
  }
}
