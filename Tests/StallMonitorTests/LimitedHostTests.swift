import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Hosts with low limits, or with a filter that refuses what the monitor uses.
  @Suite(.serialized, .takingTurns) struct LimitedHostTests {
    private func run(limit: String, environment: [String: String] = [:]) throws -> Victim {
      try Victim.run("compute", environment: environment, through: ["/usr/bin/prlimit", limit])
    }

    /// It is also the default of a thread's stack.
    @Test(arguments: [64 << 10, 128 << 10]) func smallStackLimitEndsNoHost(bytes: Int) throws {
      let victim = try run(limit: "--stack=\(bytes)", environment: ["STALLMONITOR_OTHER_THREADS": "all"])
      #expect(victim.status == 0)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.culprit.contains("blockByComputing"))
      // On an emulated processor there may be no time for lines.
      #expect(TestMachine.isEmulated || ended.culpritFrame?["file"] != nil)
    }

    @Test func threadsThatCannotBeReadAreSaidToBeSo() throws {
      let victim = try run(limit: "--nofile=16")
      #expect(victim.status == 0)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.cause == "unknown")
      let line = try #require(victim.talk.split(separator: "\n").first { $0.contains("no cause and no stacks") })
      #expect(line.hasSuffix("/syscall: Too many open files"))
    }

    @Test func runningThreadsThatCannotBeSampledAreSaidToBeSo() throws {
      let victim = try Victim.run("compute", environment: ["VICTIM_MAKES_NO_TIMERS": "1"])
      #expect(victim.status == 0 && !victim.talk.contains("no filter"))
      let lines = victim.talk.split(separator: "\n").filter { $0.contains("no stacks of running threads") }
      #expect(lines.count == 1 && lines.first?.hasSuffix("timer_create: Operation not permitted") == true)
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.cause != "unknown" && ended.culpritFrame == nil)
    }

    /// The thread that writes reports is woken by a socket.
    @Test func reportIsWrittenThoughNothingCanBeSent() throws {
      let victim = try Victim.run("compute", environment: ["VICTIM_SENDS_NOTHING": "1"])
      #expect(victim.status == 0 && !victim.talk.contains("no filter"))
      #expect(victim.reports("stall.ended").count == 1)
    }
  }
}
