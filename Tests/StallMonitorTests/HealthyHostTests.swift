import Foundation
import Testing

extension OneAtATime {
  /// Hosts that do not stall: the first thing that a stall monitor must get right.
  @Suite(.serialized)
  struct HealthyHostTests {
    @Test(arguments: Victim.Build.allCases)
    func busyAndHealthyHostIsNeverReported(build: Victim.Build) throws {
      let victim = try Victim.run("healthy", milliseconds: 3000, build: build)
      #expect(victim.status == 0)
      #expect(victim.facts["watching"] == "true")
      #expect(victim.reports.isEmpty)
    }

    @Test func hostThatHasNotRunItsLoopYetIsNotReported() throws {
      let victim = try Victim.run("never-runs", milliseconds: 800)
      #expect(victim.reports.isEmpty)
    }

    @Test func nestedRunInAPrivateModeIsNotAStall() throws {
      let victim = try Victim.run("nested", milliseconds: 1500)
      #expect(victim.reports.isEmpty)
    }

    /// Swift's crash handler stops all threads to print them, the watchdog among them.
    @Test func crashOfTheHostIsToldInFull() throws {
      let victim = try Victim.run(
        "crash", environment: ["SWIFT_BACKTRACE": "enable=yes,color=no,interactive=no"])
      #expect(victim.status != 0)
      #expect(victim.talk.contains("stall-watchdog"))
      #expect(!victim.talk.contains("failed to suspend"))
    }

    @Test func idleHostWakesNobody() throws {
      let victim = try Victim.run("idle", milliseconds: 3000)
      #expect(victim.facts["wakeups"] == "0")
      #expect(victim.reports.isEmpty)
    }

    /// A process that is stopped stands still, and its main loop is not to blame.
    @Test func stoppedProcessIsNotReported() throws {
      let victim = try Victim.run("healthy", milliseconds: 2500) { process in
        usleep(800_000)
        kill(process.processIdentifier, SIGSTOP)
        usleep(1_000_000)
        kill(process.processIdentifier, SIGCONT)
      }
      #expect(victim.reports.isEmpty)
    }
  }
}
