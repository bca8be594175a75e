import CUnwind
import Foundation
import TestSupport
import Testing
import VictimC

@testable import StallMonitor

extension WatchedHosts {
  /// A service whose work is done by tasks of Swift concurrency.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "durations and causes are those of a real machine"))
  struct TaskPoolTests {
    /// How the process's hook for jobs comes about.
    enum Hook: String, Sendable {
      /// The monitor's.
      case monitors = ""
      /// The process has one of its own, from before the monitor starts, or from after.
      case before, after
      /// The monitor's has an executor of the process's behind it.
      case around
      /// The monitor's, in a process that may have no perf events.
      case withoutPerf = "without-perf"
    }

    /// Whether libdispatch names its workers, by which the monitor finds those that run jobs without a stamp.
    private static let namesWorkers: Bool = {
      #if compiler(>=6.3)
      true
      #else
      false
      #endif
    }()
    private static let withoutNames: Comment = "libdispatch of Swift 6.2 does not name its workers"

    private func run(
      _ scenario: String, milliseconds: Int = 900, build: Victim.Build = .debug, hook: Hook = .monitors,
      environment: [String: String] = [:]
    ) throws -> Victim {
      try Victim.run(
        scenario, milliseconds: milliseconds, arguments: hook == .monitors ? [] : [hook.rawValue], build: build,
        environment: environment, program: build.executable("TaskVictim"))
    }

    private func reports(of victim: Victim, _ event: String = "stall.ended") -> [WrittenReport] {
      victim.reports(event).filter { $0["loop", "kind"] as? String == "task-pool" }
    }

    private func expectOneStall(
      _ victim: Victim, in function: String, cause: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> WrittenReport {
      #expect(victim.status == 0, sourceLocation: sourceLocation)
      let ended = reports(of: victim)
      #expect(ended.count == 1, "\(victim.reports)", sourceLocation: sourceLocation)
      let report = try #require(ended.first, sourceLocation: sourceLocation)
      #expect(report.culprit.contains(function), "\(report)", sourceLocation: sourceLocation)
      #expect(report.isCaused(by: cause), "\(report)", sourceLocation: sourceLocation)
      #expect(report["loop", "name"] as? String == "task-pool", sourceLocation: sourceLocation)
      return report
    }

    /// A thread of the pool may come into being during the work.
    @Test("work that is expected to be slow is not reported on any thread of the pool")
    func expectedOnThePool() throws {
      let victim = try run("expected")
      #expect(!victim.talk.contains("has no effect"), "\(victim.talk)")
      _ = try expectOneStall(victim, in: "load", cause: "sleep")
    }

    // MARK: One task holds its thread

    @Test(arguments: Victim.Build.allCases)
    func taskThatBlocksIsReportedWithItsFunction(build: Victim.Build) throws {
      let report = try expectOneStall(run("blocked", build: build), in: "load", cause: "sleep")
      #expect(report.duration > 850 && report.duration < 2500)
      #expect(report["task", "priority"] as? String == "medium")
      #expect(report["task", "actor"] as? String == "TaskVictim.Store")
      #expect(report["log.level"] as? String == "info", "nobody waited")
      #expect(report["stall", "evidence", "starves"] == nil)
      #expect((report["message"] as? String)?.hasPrefix("a task blocked its thread for ") == true)
      #expect(report["thread", "id"] as? Int != report["process", "pid"] as? Int)
      let functions = report["stall", "path", "functions"] as? [String] ?? []
      #expect(functions.prefix(1) == ["Store.load(_:)"])
    }

    @Test(arguments: Victim.Build.allCases)
    func taskThatComputesIsReportedWithItsFunction(build: Victim.Build) throws {
      let victim = try run("computing", build: build)
      let ended = reports(of: victim)
      #expect(ended.count == 1)
      let report = try #require(ended.first)
      #expect(report.isCaused(by: "running"))
      #expect(report["task", "actor"] == nil)
      #expect(report.stack.contains { ($0["symbol"] as? String)?.contains("compute") == true })
    }

    @Test(arguments: ["group", "async-let"])
    func childTaskThatBlocksIsReported(scenario: String) throws {
      _ = try expectOneStall(run(scenario), in: "work(milliseconds:", cause: "sleep")
    }

    @Test func taskHasItsNameAndItsNumber() throws {
      let report = try expectOneStall(run("named"), in: "load", cause: "sleep")
      #expect(report["task", "name"] as? String == "order 4711")
      #expect((report["task", "id"] as? Int ?? 0) > 0)
      #expect((report["message"] as? String)?.hasPrefix("task \"order 4711\" blocked its thread for ") == true)
    }

    /// The job stamps the pulse of the monitor that it began under: the second one scans its thread.
    @Test(.enabled(if: namesWorkers, withoutNames)) func jobThatRestartsTheMonitorIsReported() throws {
      let ended = reports(of: try run("restarted-in-a-job", milliseconds: 1500))
      #expect(ended.count == 1 && ended.allSatisfy { $0.culprit.contains("work(milliseconds:") }, "\(ended)")
    }

    /// It has no threads for tasks, and it needs none.
    @Test func childOfAForkDoesNotReportItsParentsPool() throws {
      let victim = try run("forked", milliseconds: 1200)
      #expect(victim.status == 0)
      #expect(!victim.reports.contains { $0["loop", "kind"] as? String == "cooperative-pool" }, "\(victim.reports)")
    }

    /// A task that begins at once runs within the one that began it, whose job holds the thread.
    @Test func taskThatRunsAnotherHasItsOwnName() throws {
      let report = try expectOneStall(run("begun-at-once"), in: "work(milliseconds:", cause: "sleep")
      #expect(report["task", "name"] as? String == "outer")
      #expect(report["task", "priority"] as? String == "medium")
    }

    @Test func taskHasThePriorityThatItHasBeenGivenSince() throws {
      let victim = try run("escalated", milliseconds: TestMachine.stall(1300))
      let report = try expectOneStall(victim, in: "TaskVictim.", cause: "running")
      #expect(report["task", "priority"] as? String == "high")
    }

    /// The actor runs a hundred other tasks in the same run.
    @Test func longTaskAmongShortOnesOfAnActorIsReported() throws {
      let report = try expectOneStall(run("short-jobs-and-a-long-one"), in: "hold", cause: "sleep")
      #expect(report.duration > 700 && report.duration < 1500)
    }

    /// A task of one to two thresholds that follows another in the same run is met soon enough.
    @Test func taskThatWaitedForABusyActorIsReportedEachTime() throws {
      let milliseconds = TestMachine.stall(400)
      let ended = reports(
        of: try run(
          "late-on-a-busy-actor", milliseconds: milliseconds, environment: ["STALLMONITOR_REPEAT_WINDOW": "0s"]))
      #expect(ended.count == 6)
      let durations = 0.75 * Double(milliseconds)..<1.5 * Double(milliseconds)
      #expect(ended.allSatisfy { $0.culprit.contains("hold") && durations.contains($0.duration) })
    }

    /// The thread's jobs are not stamped yet when the watchdog wakes for the first one.
    @Test func stallSoonAfterTheFirstJobIsReportedOnce() throws {
      for _ in 0..<6 {
        let victim = try run("soon-after-the-first", milliseconds: TestMachine.stall(400))
        _ = try expectOneStall(victim, in: "load", cause: "sleep")
      }
    }

    @Test func taskOfAnActorThatStartsOthersMeanwhileIsReported() throws {
      let victim = try run("actor-that-starts-tasks", milliseconds: TestMachine.stall(900))
      let report = try expectOneStall(victim, in: "blockAThread", cause: "sleep")
      #expect(report.duration > 600)
      #expect(report.stack.contains { ($0["symbol"] as? String)?.contains("startTasks") == true })
    }

    @Test func lockThatAnotherTaskHoldsIsReportedWithItsHolder() throws {
      let victim = try run("lock", milliseconds: TestMachine.stall(900))
      let waiting = try #require(reports(of: victim).first { $0.cause == "lock" })
      let holder = try #require(reports(of: victim).first { $0.cause == "sleep" })
      #expect(waiting["stall", "evidence", "lock_holder"] as? Int == holder["thread", "id"] as? Int)
      #expect(holder["thread", "id"] != nil)
    }

    /// A debugger stops the thread of a task that runs on CPU.
    @Test(
      .enabled(if: getuid() == 0, "a system may let only root trace another process"),
      .enabled(if: namesWorkers, withoutNames))
    func taskThatADebuggerStopsIsReportedAsStopped() throws {
      // The job itself is short: the stop alone makes it late.
      let victim = try Victim.run(
        "computing", milliseconds: 300, environment: ["STALLMONITOR_THRESHOLD": "500ms"],
        program: Victim.Build.debug.executable("TaskVictim")
      ) { process in
        let tasks = "/proc/\(process.processIdentifier)/task"
        func running() throws -> Int32? {
          try FileManager.default.contentsOfDirectory(atPath: tasks).compactMap { Int32($0) }.first { id in
            // The end of a root queue's label, and the state.
            (try? String(contentsOfFile: "\(tasks)/\(id)/stat", encoding: .utf8))?.contains(".default-qos) R ") == true
          }
        }
        var thread: Int32?
        for _ in 0..<2000 where thread == nil {
          usleep(1000)
          thread = try running()
        }
        let tracer = victim_begin_stop(try #require(thread))
        usleep(1_500_000)
        if tracer > 0 { victim_end_stop(tracer) }
      }
      let ended = try #require(reports(of: victim).first)
      #expect(ended.cause == "stopped", "\(ended)")
      #expect(ended.culprit == "" && ended.stack.isEmpty)
      #expect((ended["message"] as? String)?.hasSuffix(": stopped by a debugger or another tracer") == true)
    }

    @Test func tasksThatHoldAllThreadsStarveOthers() throws {
      let victim = try run("all-blocked", milliseconds: TestMachine.stall(900))
      let processors = ProcessInfo.processInfo.activeProcessorCount
      // The first report may have no names there.
      let event = TestMachine.isEmulated ? "stall.ended" : "stall.started"
      let blocked = reports(of: victim, event).filter { $0["stall", "evidence", "starves"] as? Bool == true }
      #expect(blocked.count >= processors)
      #expect(blocked.allSatisfy { $0["log.level"] as? String == "warn" && $0.culprit.contains("blockAThread") })
      let pool = try #require(
        victim.reports("stall.ended").first { $0["loop", "kind"] as? String == "cooperative-pool" })
      // By the name of libdispatch's function: Debian's library of Swift 6.2 has no symbol table.
      let message = try #require(pool["message"] as? String)
      #expect(!Self.namesWorkers || message.contains("\(processors) of them in blockAThread(_:)"), "\(message)")
    }

    /// Blocks of libdispatch's global queue and tasks of the default priority have the same threads.
    @Test(.enabled(if: namesWorkers, withoutNames)) func blocksThatHoldAllThreadsAreNamed() throws {
      let victim = try run("all-blocked-by-dispatch", milliseconds: TestMachine.stall(900))
      let processors = ProcessInfo.processInfo.activeProcessorCount
      let pool = try #require(
        victim.reports("stall.ended").first { $0["loop", "kind"] as? String == "cooperative-pool" })
      let message = try #require(pool["message"] as? String)
      #expect(message.contains("\(processors) of them in blockAThread(_:)"), "\(message)")
      let threads = pool["threads"] as? [[String: Any]] ?? []
      #expect(threads.count == processors, "\(threads)")
    }

    /// Blocks of another priority have threads of their own, and no task waits for them.
    @Test func blocksOfAnotherQueueHoldNoTask() throws {
      let victim = try run("blocked-by-other-dispatch", milliseconds: TestMachine.stall(600))
      #expect(!victim.reports.contains { $0["loop", "kind"] as? String == "cooperative-pool" }, "\(victim.reports)")
    }

    // MARK: Thresholds

    @Test func taskOfLowPriorityMayTakeLonger() throws {
      #expect(try run("background", milliseconds: 500).reports.isEmpty)
      let report = try #require(reports(of: run("background", milliseconds: 1500)).first)
      #expect(report["stall", "threshold_ms"] as? Double == 1000)
      // The main task waits for it, and has lent it its own.
      #expect(report["task", "priority"] as? String == "medium")
      // libdispatch names its workers by the end of their queue's label.
      #expect(!Self.namesWorkers || (report["thread", "name"] as? String)?.hasSuffix("background-qos") == true)
    }

    @Test func taskOfLowPriorityHasTheThresholdThatIsAskedFor() throws {
      let victim = try run(
        "background", milliseconds: 500, environment: ["STALLMONITOR_BACKGROUND_TASK_THRESHOLD": "300ms"])
      #expect(reports(of: victim).first?["stall", "threshold_ms"] as? Double == 300)
    }

    // MARK: What is no stall

    @Test(arguments: [Hook.monitors, .before, .after])
    func yieldingTasksAreNotReported(hook: Hook) throws {
      let victim = try run("yield-storm", milliseconds: 1500, hook: hook)
      #expect(reports(of: victim).isEmpty)
    }

    /// While a thread of the pool is idle, most yields do not suspend the task: it stays in one job.
    @Test(arguments: [
      ("yields", Hook.monitors), ("yields", .withoutPerf), ("yields", .after), ("yields-on-an-actor", .monitors),
      ("yields-on-an-actor", .after),
    ])
    func taskThatYieldsOftenEnoughIsNotReported(scenario: String, hook: Hook) throws {
      let victim = try run(scenario, milliseconds: 2000, hook: hook)
      #expect(victim.status == 0 && reports(of: victim).isEmpty, "\(victim.reports)")
    }

    /// It counts from the check that meets it, which is at most an eighth of the threshold late.
    @Test(arguments: [Hook.monitors, .withoutPerf])
    func taskBelowTheThresholdAmongShortOnesIsNotReported(hook: Hook) throws {
      let victim = try run("hardly-a-stall-on-an-actor", milliseconds: 242, hook: hook)
      let longest = try #require(victim.facts["longest"].flatMap { Int($0) })
      #expect(longest >= 249 || reports(of: victim).isEmpty, "\(victim.reports)")
    }

    @Test(arguments: [Hook.monitors, .withoutPerf])
    func taskThatBlocksAfterAYieldIsReported(hook: Hook) throws {
      let milliseconds = TestMachine.stall(900)
      let victim = try run("blocked-after-a-yield", milliseconds: milliseconds, hook: hook)
      let report = try expectOneStall(victim, in: "work(milliseconds:", cause: "sleep")
      #expect(report.duration > 700 && report.duration < Double(milliseconds) + 1600)
    }

    /// The time before the last yield does not count, nor that after the next one.
    @Test(.enabled(if: cunwind_perf_is_permitted(), "perf events are not permitted"))
    func taskThatComputesBetweenYieldsIsReported() throws {
      let victim = try run("computing-after-yields", milliseconds: TestMachine.stall(900))
      let ended = reports(of: victim)
      #expect(ended.count == 1)
      let report = try #require(ended.first)
      #expect(report.isCaused(by: "running"))
      #expect(report.duration > 700 && report.duration <= Double(TestMachine.stall(900)) + 100, "\(report)")
      #expect((report["message"] as? String)?.contains("for at least") == true, "\(report)")
    }

    /// They have no task by which one could be told from the next.
    @Test func isolatedDeinitsThatFollowEachOtherAreNotOneFunctionsFault() throws {
      let victim = try run("deinits-on-an-actor")
      #expect(victim.status == 0)
      for report in reports(of: victim) {
        #expect(report["stall", "culprit"] == nil, "\(report)")
        #expect((report["stall", "capture", "failure"] as? String)?.contains("several jobs") == true, "\(report)")
        #expect((report["message"] as? String)?.hasPrefix("an actor blocked its thread for at least ") == true)
      }
    }

    /// The runtime's own short jobs do not pass the hook.
    @Test func sleepingTasksAreNoJobsOfAnExecutor() throws {
      let victim = try run("short-sleeps", milliseconds: 1500)
      #expect(reports(of: victim).isEmpty && !victim.talk.contains("does not see"), "\(victim.talk)")
    }

    /// One run of the actor takes two seconds, and each of its tasks a millisecond.
    @Test(arguments: Victim.Build.allCases)
    func shortTasksOfAnActorAreNotReported(build: Victim.Build) throws {
      #expect(try reports(of: run("short-jobs", milliseconds: 1500, build: build)).isEmpty)
    }

    @Test func tasksThatUseAnActorInTurnsAreNotReported() throws {
      #expect(try reports(of: run("pieces-on-an-actor", milliseconds: 2000)).isEmpty)
    }

    /// In the rhythm of the checks, and for long: one that is met by each of them would look like one task.
    @Test(arguments: [Hook.monitors, .before, .after])
    func tasksThatResumeEachOtherOnAnActorAreNotReported(hook: Hook) throws {
      #expect(
        try reports(
          of: run("pieces-in-turns", milliseconds: 4000, hook: hook, environment: ["STALLMONITOR_THRESHOLD": "100ms"])
        ).isEmpty)
    }

    @Test func poolThatIsSwitchedOffIsNotWatched() throws {
      #expect(try run("blocked", environment: ["STALLMONITOR_COOPERATIVE_POOL": "false"]).reports.isEmpty)
    }

    /// As many threads as processors, however many jobs block, and whatever executor they prefer.
    @Test(arguments: ["many-blocked", "many-blocked-on-the-global-executor"])
    func poolHasAsManyThreadsAsWithoutAMonitor(scenario: String) throws {
      func threads(_ isWatched: String) throws -> Int? {
        try run(scenario, milliseconds: 60, environment: ["STALLMONITOR_COOPERATIVE_POOL": isWatched])
          .facts["threads"].flatMap { Int($0) }
      }
      let (watched, unwatched) = (try #require(try threads("true")), try #require(try threads("false")))
      #expect(watched == unwatched)
    }

    /// A worker inherits the signals that the thread blocks that makes it, and the monitor wakes queues, too.
    @Test func threadsBlockTheSignalsThatTheyBlockWithoutAMonitor() throws {
      func blocked(_ isWatched: String) throws -> [String: String] {
        let environment = ["STALLMONITOR_ENABLED": isWatched]
        return try run("signals", milliseconds: 400, environment: environment).facts.filter { $0.key != "watching" }
      }
      let (watched, unwatched) = (try blocked("true"), try blocked("false"))
      #expect(watched == unwatched)
      #expect(watched.count == 5)
    }

    @Test func limitOfThreadsIsWhatThePageSays() throws {
      let page = try String(contentsOf: Repository.file("Documentation/Internals/Limits.md"), encoding: .utf8)
      #expect(page.contains("`RLIMIT_NOFILE` is below \(TaskPool.descriptorsForAllThreads),"))
    }

    // MARK: Jobs without a stamp

    @Test(.enabled(if: namesWorkers, withoutNames), arguments: [Hook.before, .after])
    func taskThatBlocksIsReportedThoughJobsAreNotStamped(hook: Hook) throws {
      let victim = try run("blocked", hook: hook)
      let report = try expectOneStall(victim, in: "load", cause: "sleep")
      // The call's own time, which the kernel keeps to within a few milliseconds.
      #expect(report.duration > 500 && report.duration < 920)
      #expect(victim.talk.split(separator: "\n").count { $0.contains("swift_task_enqueueGlobal_hook") } == 1)
    }

    @Test(.enabled(if: namesWorkers, withoutNames), arguments: [Hook.before, .after], Victim.Build.allCases)
    func taskThatComputesIsReportedThoughJobsAreNotStamped(hook: Hook, build: Victim.Build) throws {
      let victim = try run("computing", build: build, hook: hook)
      let ended = reports(of: victim)
      #expect(ended.count == 1, "\(victim.reports)")
      let report = try #require(ended.first)
      #expect(report.isCaused(by: "running"))
      #expect(report.duration > 500 && report.duration < 920)
      #expect(report["task", "priority"] as? String == "medium")
      #expect(report.stack.contains { ($0["symbol"] as? String)?.contains("compute") == true })
      #expect(report.stack.contains { $0["async"] as? Bool == true })
    }

    /// Tasks run where they run without a monitor, whatever is behind the hook.
    @Test(arguments: [Hook.monitors, .around])
    func tasksStayOnTheirExecutor(hook: Hook) throws {
      let victim = try run("queues", hook: hook)
      let queue = hook == .around ? "executor-of-the-host" : "Swift-global-concurrent-queue"
      for priority in ["background", "medium", "high"] {
        #expect(victim.facts["TaskPriority.\(priority)"] == queue, "\(victim.talk)")
      }
    }

    /// The runtime's hook does not see these.
    @Test(
      .enabled(if: namesWorkers, withoutNames),
      arguments: ["handed-on": "load", "on-the-global-executor": "work(milliseconds:"])
    func taskThatAnExecutorHandsOnIsReported(scenario: String, function: String) throws {
      let victim = try run(scenario)
      let report = try expectOneStall(victim, in: function, cause: "sleep")
      #expect(report.duration > 300 && report.duration < 920)
      #expect(victim.talk.split(separator: "\n").count { $0.contains("globalConcurrentExecutor") } == 1)
    }

    /// Nothing else wakes the watchdog then: it has met such tasks before.
    @Test(
      "a task that an executor passes on is reported while nothing else happens",
      .enabled(if: namesWorkers, withoutNames))
    func taskThatAnExecutorPassesOnAfterARest() throws {
      let victim = try Victim.run(
        "passed-on", milliseconds: 500, environment: ["STALLMONITOR_THRESHOLD": "100ms"])
      // On a busy machine, the short tasks may be stalls, too.
      let report = try #require(reports(of: victim).first { $0.culprit.contains("blockBySleeping") })
      #expect(report.isCaused(by: "sleep"), "\(report)")
      #expect(report.duration > 200 && report.duration < 520)
    }

    /// The watchdog's threads have a descriptor table of their own, and a thread that one of them makes would have it, too.
    @Test func poolsThreadsHaveTheServicesDescriptors() throws {
      let victim = try run("descriptors")
      #expect(victim.facts["missing"] == "0", "\(victim.talk)")
    }

    @Test func workersThatWaitForJobsAreNotReported() throws {
      #expect(try run("idle", milliseconds: 1500).reports.isEmpty)
      #expect(try run("idle", milliseconds: 1500, hook: .before).reports.isEmpty)
    }
  }
}
