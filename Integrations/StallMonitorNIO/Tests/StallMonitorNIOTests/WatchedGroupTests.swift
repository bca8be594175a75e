import Foundation
import Testing

/// Services on SwiftNIO, judged from outside by their report lines.
@Suite(
  .serialized, .takingTurns,
  .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"))
struct WatchedGroupTests {
  // MARK: No report

  /// Every loop works most of the time, in turns of a few milliseconds.
  @Test func busyServerIsNotReported() throws {
    let victim = try Victim.run(here: "healthy", environment: ["STALLMONITOR_THRESHOLD": "500ms"])
    #expect(victim.status == 0)
    // On a busy machine a loop may truly get no processor.
    #expect(victim.reports.allSatisfy { $0.cause == "starved" })
    #expect(victim.facts["rounds"] != nil)
  }

  /// Not one wake-up of its loops; and when work comes, it is watched.
  @Test func idleGroupIsNotWokenAndIsStillWatched() throws {
    let victim = try Victim.run(here: "idle", environment: ["STALLMONITOR_THRESHOLD": "50ms"])
    #expect(Int(victim.facts["quiet"] ?? "") == 2, "twice half a second without a wake-up")
    #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
    #expect(victim.reports.allSatisfy { $0.culprit.contains("stallTheFirstLoop()") })
  }

  @Test func stoppedProcessNamesNoFunction() throws {
    let victim = try Victim.run(here: "stopped", environment: ["STALLMONITOR_THRESHOLD": "200ms"], waitingFor: "\n") {
      process in
      for _ in 0..<2 {
        kill(process.processIdentifier, SIGSTOP)
        usleep(500_000)
        kill(process.processIdentifier, SIGCONT)
        usleep(200_000)
      }
    }
    #expect(victim.status == 0)
    // On a busy machine a loop may truly get no processor.
    #expect(victim.reports.allSatisfy { ($0.cause == "stopped" && $0.culprit == "") || $0.cause == "starved" })
  }

  /// Nothing is posted to a loop that has shut down: SwiftNIO ends the process for it in this mode.
  @Test func groupsThatShutDownAreReleased() throws {
    let victim = try Victim.run(
      here: "shutdown",
      environment: ["STALLMONITOR_THRESHOLD": "1ms", "STALLMONITOR_SINK": "file:/dev/null", "SWIFTNIO_STRICT": "1"])
    #expect(victim.status == 0)
    #expect(!victim.talk.contains("ERROR"), "\(victim.talk)")
    // Of 300 loops; a file of the symbols may be open.
    #expect(Int(victim.facts["left"] ?? "") ?? .max < 20, "no descriptor stays")
    #expect(victim.facts["wakeups"] == "0", "nothing is left to watch")
  }

  @Test func groupThatIsNoLongerWatchedIsNotReported() throws {
    let victim = try Victim.run(here: "unwatch")
    #expect(victim.facts["first"] == "done")
    #expect(victim.reports.isEmpty)
  }

  // MARK: Reports

  @Test(arguments: [("sleep", "sleepInChannelRead(", "sleep"), ("compute", "computeInChannelRead(", "running")])
  func stalledChannelReadIsReported(scenario: String, culprit: String, cause: String) throws {
    let victim = try Victim.run(here: scenario)
    #expect(victim.status == 0)
    #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
    let took = try #require(victim.facts["took_ms"].flatMap(Double.init))
    for report in victim.reports {
      #expect(report.culprit.contains(culprit))
      #expect(report.file.hasSuffix("/EchoServer.swift"))
      // On a busy machine a computation is truly starved.
      #expect(report.cause == cause || (cause == "running" && report.cause == "starved"))
      #expect(report["loop", "kind"] as? String == "nio")
      #expect(report.loop.hasPrefix("nio-"))
    }
    let thread = try #require(victim.reports.first?["thread", "name"] as? String)
    #expect(thread.hasPrefix("NIO-ELT-"))
    // The group's first loop is the thread with number 1.
    let index = try #require(victim.reports.first.flatMap { Int($0.loop.dropFirst("nio-".count)) })
    #expect(thread.hasSuffix("#\(index + 1)"))
    let ended = try #require(victim.reports.last)
    #expect(ended.duration <= took + 20)
    #expect(ended.duration >= 250)
  }

  @Test func loopsThatStallAtTheSameTimeAreDistinguished() throws {
    let victim = try Victim.run(here: "several")
    for (loop, function) in [("worker-0", "stallTheFirstLoop()"), ("worker-2", "stallTheThirdLoop()")] {
      let reports = victim.reports.filter { $0.loop == loop }
      #expect(reports.map(\.event) == ["stall.started", "stall.ended"])
      #expect(reports.allSatisfy { $0.culprit.contains(function) })
    }
    #expect(!victim.reports.contains { $0.loop == "worker-1" }, "it turned all the time")
  }

  @Test func mainThreadThatBecomesAnEventLoopIsWatched() throws {
    let victim = try Victim.run(here: "taken-over")
    #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
    #expect(victim.reports.allSatisfy { $0.loop == "front-0" && $0.culprit.contains("stallTheMainThread()") })
  }

  @Test func stallThatTheGroupShutsDownInIsReportedToItsEnd() throws {
    let victim = try Victim.run(here: "shutdown-in-stall")
    #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
    #expect(victim.reports.allSatisfy { $0.culprit.contains("stallTheFirstLoop()") })
    #expect(victim.reports.last?.duration ?? 0 <= 800)
  }

  // MARK: Bad input

  @Test func whatCannotBeWatchedIsAnError() throws {
    let victim = try Victim.run(here: "wrong")
    #expect(
      victim.talk.contains(
        "embedded: nio-0 is EmbeddedEventLoop; allowed: event loops of a MultiThreadedEventLoopGroup"))
    #expect(victim.talk.contains("threshold: the loop's threshold is 1e-06 seconds; allowed: from 1 ms to 1 h"))
    #expect(victim.talk.contains("name: the loop's name is \"nnn"))
    #expect(victim.reports.isEmpty)
  }

  @Test func disabledMonitorLeavesTheGroupAlone() throws {
    let victim = try Victim.run(here: "sleep", environment: ["STALLMONITOR_ENABLED": "false"])
    #expect(victim.status == 0)
    #expect(victim.reports.isEmpty)
    #expect(victim.talk.split(separator: "\n").allSatisfy { $0.hasPrefix("victim: ") })
  }
}
