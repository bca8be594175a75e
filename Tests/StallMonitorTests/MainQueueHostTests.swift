import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Hosts whose main queue has no run loop, watched with the one line that a host on ours has.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"))
  struct MainQueueHostTests {
    private func run(
      _ program: String, _ scenario: String, build: Victim.Build = .usual, threshold: String = "100ms",
      environment: [String: String] = [:], whileRunning: ((Process) throws -> Void)? = nil
    ) throws -> Victim {
      try Victim.run(
        scenario, build: build, environment: environment.merging(["STALLMONITOR_THRESHOLD": threshold]) { $1 },
        program: build.executable(program), whileRunning: whileRunning
      )
    }

    /// The victims block for 450 ms; a heartbeat may begin to wait a threshold later.
    private func expectStall(
      _ victim: Victim, in function: String, cause: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
      let ended = try #require(victim.reports("stall.ended").first, sourceLocation: sourceLocation)
      #expect(victim.reports("stall.ended").count == 1, sourceLocation: sourceLocation)
      #expect(ended["loop", "kind"] as? String == "main-queue", sourceLocation: sourceLocation)
      #expect(ended["loop", "phase"] as? String == "heartbeat", sourceLocation: sourceLocation)
      #expect(
        ended.stack.contains { ($0["symbol"] as? String)?.contains(function) == true }, sourceLocation: sourceLocation)
      #expect(ended.isCaused(by: cause), sourceLocation: sourceLocation)
      #expect(ended.duration > 250 && ended.duration < 2500, sourceLocation: sourceLocation)
      #expect(ended["thread", "id"] as? Int != ended["process", "pid"] as? Int, sourceLocation: sourceLocation)
      #expect(
        (ended["message"] as? String)?.hasPrefix("main queue did not respond for") == true,
        sourceLocation: sourceLocation)
    }

    @Test(arguments: Victim.Build.allCases)
    func sleepOnTheMainQueueIsReportedWithItsFunction(build: Victim.Build) throws {
      let victim = try run("DispatchMainVictim", "sleep", build: build)
      try expectStall(victim, in: "sleepOnTheMainQueue", cause: "sleep")
    }

    /// libdispatch's workers block the signal by which a running thread is captured.
    @Test(arguments: Victim.Build.allCases)
    func computationOnTheMainQueueIsReportedWithItsFunction(build: Victim.Build) throws {
      let victim = try run("DispatchMainVictim", "compute", build: build)
      try expectStall(victim, in: "compute", cause: "running")
      #expect(victim.facts["default"] == "true")
    }

    /// SIGPROF is not borrowed if the service uses it.
    @Test func servicesProfilerIsUndisturbed() throws {
      let victim = try run("DispatchMainVictim", "profiled")
      #expect(victim.facts["kept"] == "true")
      #expect(victim.facts["samples"] == "0")
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.isCaused(by: "running"))
      // Perf events need no signal; without them there is no stack.
      if ended["stall", "capture", "method"] as? String != "perf" {
        #expect(ended["stall", "capture", "failure"] as? String == "the thread runs with the capture signal blocked")
      }
    }

    @Test(arguments: Victim.Build.allCases)
    func blockedMainActorIsReportedWithItsFunction(build: Victim.Build) throws {
      let victim = try run("AsyncMainVictim", "main-actor", build: build)
      try expectStall(victim, in: "blockTheMainActor", cause: "sleep")
    }

    @Test func mainFunctionThatBlocksAfterASuspensionIsReported() throws {
      try expectStall(run("AsyncMainVictim", "main"), in: "blockTheMainActor", cause: "sleep")
    }

    /// The main actor's slow work is expected, and that of a thread of the pool is not.
    @Test func expectedWorkOfTheMainActorIsNotReported() throws {
      let victim = try run(
        "AsyncMainVictim", "expected", environment: ["STALLMONITOR_COOPERATIVE_POOL": "true"])
      #expect(victim.facts["rounds"] == "1")
      let ended = victim.reports("stall.ended")
      #expect(ended.count == 1 && ended.allSatisfy { $0.culprit.contains("blockAThreadOfThePool") })
    }

    @Test func stallRightAfterIdlenessIsFound() throws {
      try expectStall(run("DispatchMainVictim", "after-idleness"), in: "sleepOnTheMainQueue", cause: "sleep")
    }

    /// What a thread hands to `DispatchQueue.main.sync` it runs itself.
    @Test func workOfDispatchSyncIsReportedWithTheThreadThatRunsIt() throws {
      let victim = try run("DispatchMainVictim", "sync")
      try expectStall(victim, in: "sleepOnTheMainQueue", cause: "sleep")
      let stack = try #require(victim.reports("stall.ended").first).stack
      #expect(!stack.contains { $0["symbol"] as? String == "_dispatch_worker_thread" })
    }

    /// No function is responsible for a queue that no thread serves.
    @Test func queueThatWaitsForAWorkerIsReportedAsStarved() throws {
      let victim = try run("DispatchMainVictim", "starved")
      let ended = try #require(victim.reports("stall.ended").first)
      #expect(ended.cause == "starved")
      #expect(ended.stack.isEmpty && ended.culprit == "" && ended["thread"] == nil)
      #expect(
        (ended["message"] as? String)?.contains("no thread of libdispatch's pool has started the queued work") == true)
      #expect(ended["stall", "capture", "failure"] as? String == "no thread serves the loop")
      let started = try #require(victim.reports("stall.started").first)
      let others = started["threads"] as? [[String: Any]] ?? []
      // The pool's threads are known by a function that libdispatch does not export.
      #expect(
        !TestMachine.namesSwiftsLibraries
          || others.contains { ($0["state"] as? String)?.hasPrefix("clock_nanosleep") == true })
    }

    @Test(arguments: [("DispatchMainVictim", "busy"), ("DispatchMainVictim", "saturated"), ("AsyncMainVictim", "busy")])
    func busyAndHealthyHostIsNeverReported(program: String, scenario: String) throws {
      let victim = try run(program, scenario, threshold: "250ms")
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty)
    }

    @Test func mainFunctionThatWaitsIsNoStall() throws {
      let victim = try run("AsyncMainVictim", "suspended")
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty)
    }

    /// Blocks wait on the main queue of a program that never comes to serve it.
    @Test func hostThatNeverServesItsMainQueueIsNotReported() throws {
      let victim = try run("DispatchMainVictim", "never-serves")
      #expect(victim.status == 0)
      #expect(victim.reports.isEmpty)
    }

    /// The word of the main queue has the id of a thread that the child does not have.
    @Test func childOfAForkThatWatchesItselfIsNotReported() throws {
      let victim = try run("DispatchMainVictim", "forked")
      #expect(victim.facts["watching"] == "true")
      #expect(victim.reports.isEmpty)
    }

    /// The watchdog looks once a threshold, and nobody else wakes.
    @Test func idleHostsThreadsAreLeftAsleep() throws {
      let victim = try run("DispatchMainVictim", "idle")
      #expect(victim.reports.isEmpty)
      // 1.2 seconds, of 100 ms each.
      let wakeUps = try #require(victim.facts["wakeups"].flatMap { Int($0) })
      #expect(wakeUps >= 1 && wakeUps <= 13)
      // A heartbeat each threshold would wake a worker twelve times. A worker that has had nothing to do for five seconds ends.
      let switches = try #require(victim.facts["switches"].flatMap { Int($0) })
      #expect(switches <= 3)
    }

    @Test func pausedHostIsNotReported() throws {
      let victim = try run("DispatchMainVictim", "paused")
      #expect(victim.facts["slept"] == "true")
      #expect(victim.reports.isEmpty)
    }

    @Test func stoppedMonitorWatchesNoMore() throws {
      let victim = try run("DispatchMainVictim", "stopped-in-time")
      #expect(victim.facts["slept"] == "true")
      #expect(victim.reports.isEmpty)
    }

    @Test func stoppedProcessIsReportedOnceAndNamesNoFunction() throws {
      let victim = try run("DispatchMainVictim", "saturated", threshold: "250ms") { process in
        usleep(500_000)
        kill(process.processIdentifier, SIGSTOP)
        usleep(600_000)
        kill(process.processIdentifier, SIGCONT)
      }
      #expect(victim.reports.map(\.cause) == ["stopped"])
      #expect(victim.reports.allSatisfy { $0.stack.isEmpty && $0.culprit == "" })
    }

    @Test(arguments: Victim.Build.allCases)
    func blockedPoolIsReportedWithItsThreads(build: Victim.Build) throws {
      let victim = try run(
        "AsyncMainVictim", "pool", build: build, environment: ["STALLMONITOR_COOPERATIVE_POOL": "true"])
      let ended = try #require(
        victim.reports("stall.ended").first { $0["loop", "kind"] as? String == "cooperative-pool" })
      #expect(ended.cause == "starved")
      #expect(ended.stack.isEmpty && ended["thread"] == nil)
      #expect(ended.duration > 250 && ended.duration < 2500)
      let threads = ended["threads"] as? [[String: Any]] ?? []
      // They are known by a function that libdispatch does not export.
      #expect(threads.count == (TestMachine.namesSwiftsLibraries ? ProcessInfo.processInfo.activeProcessorCount : 0))
      for thread in threads {
        let stack = thread["stack"] as? [[String: Any]] ?? []
        #expect(stack.contains { ($0["symbol"] as? String)?.contains("blockAThreadOfThePool") == true })
      }
    }

    @Test func poolThatContinuesIsNotReported() throws {
      let victim = try run(
        "AsyncMainVictim", "pool-busy", threshold: "250ms", environment: ["STALLMONITOR_COOPERATIVE_POOL": "true"])
      #expect(victim.status == 0)
      #expect(victim.reports.allSatisfy { $0["loop", "kind"] as? String == "task-pool" })
    }

    /// If a process ends during the stall, its next start reports it.
    @Test func stallThatTheProcessEndsInIsReported() throws {
      let state = try ScratchDirectory.inMemory()
      let environment = ["STALLMONITOR_STATE_DIRECTORY": state.path]
      _ = try run("DispatchMainVictim", "sleep", environment: environment) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        try waitUntil { try !FileManager.default.contentsOfDirectory(atPath: state.path).isEmpty }
      }
      let fatal = try #require(
        run("DispatchMainVictim", "never-serves", environment: environment).reports("stall.fatal").first)
      #expect(fatal.culprit.contains("sleepOnTheMainQueue"))
      #expect(fatal["loop", "kind"] as? String == "main-queue")
    }

    /// libdispatch comes with a host that uses it, and not with this library: each of its entry points is a weak reference.
    @Test func libraryAloneBringsNoDispatch() throws {
      let objects = try Victim.Build.debug.executable("DispatchMainVictim").deletingLastPathComponent()
        .appending(path: "CLinux.build/main_queue.c.o")
      let lines = try Program.run("/usr/bin/nm", ["--undefined-only", objects.path]).output
        .split(separator: "\n").filter { $0.contains("dispatch") }
      #expect(lines.count == 3)
      #expect(lines.allSatisfy { $0.contains(" w ") || $0.contains(" v ") })
    }
  }
}
