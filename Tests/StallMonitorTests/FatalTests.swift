import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Services that end during a stall, and what the next start of the same service reports.
  @Suite(
    .serialized, .takingTurns,
    .repeatedAfterStandstills(because: "the watchdog has to see a stall before its process ends"))
  struct FatalTests {
    /// A service's state directory, for one test.
    final class State: Sendable {
      private let directory: ScratchDirectory
      var path: String { directory.path }

      init() throws { directory = try ScratchDirectory.inMemory() }

      var environment: [String: String] { environment(["STALLMONITOR_THRESHOLD": "50ms"]) }

      func environment(_ more: [String: String]) -> [String: String] {
        more.merging(["STALLMONITOR_STATE_DIRECTORY": path, "SWIFT_BACKTRACE": "enable=no"]) { $1 }
      }

      var files: [String] {
        // Beside the detail files.
        ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).filter { $0 != "stalls" }
      }

      /// Waits until the directory holds a file, or none.
      func wait(untilEmpty: Bool = false) throws {
        try waitUntil("the files of the directory: \(files)") { files.isEmpty == untilEmpty }
      }

      /// Runs the service until its stall is recorded, and kills it then.
      func runAndKill(
        _ scenario: String = "sleep", milliseconds: Int = 30_000, build: Victim.Build = .usual,
        environment: [String: String]? = nil
      ) throws -> Victim {
        try Victim.run(
          scenario, milliseconds: milliseconds, build: build, environment: environment ?? self.environment
        ) { process in
          defer { kill(process.processIdentifier, SIGKILL) }
          try self.wait()
          // Names have a time budget: those that the first report lacks come with the next samples.
          _ = eventually(within: 20) { self.isNamed }
          // The record is written before the line.
          _ = eventually(within: 20) { process.hasWritten }
        }
      }

      private var isNamed: Bool { files.contains { FatalTests.hasLines("\(path)/\($0)") } }

      /// Starts the service again, healthy.
      func restart(milliseconds: Int = 1, environment: [String: String]? = nil) throws -> Victim {
        try Victim.run("never-runs", milliseconds: milliseconds, environment: environment ?? self.environment)
      }
    }

    /// Whether a record has its frames' lines.
    private static func hasLines(_ record: String) -> Bool {
      (try? Data(contentsOf: URL(fileURLWithPath: record)))?.range(of: Data("\"line\":".utf8)) != nil
    }

    private func expectFatal(_ victim: Victim, culprit: String, after killed: Victim) throws {
      #expect(victim.status == 0)
      #expect(victim.reports.map(\.event) == ["stall.fatal"])
      let fatal = try #require(victim.reports.first)
      let last = try #require(killed.reports.last)
      #expect(fatal.culprit.contains(culprit))
      #expect(fatal.culpritFrame?["line"] is Int)
      #expect(fatal.id == last.id)
      #expect(fatal["process", "pid"] as? Int == last["process", "pid"] as? Int)
      #expect(fatal["log.level"] as? String == "error")
      #expect((fatal["message"] as? String)?.contains("when the process ended") == true)
      #expect(fatal.duration >= 50)
      let sequence = try #require(last["stall", "sequence"] as? Int)
      #expect(fatal["stall", "sequence"] as? Int == sequence + 1, "no line is lost")
    }

    @Test(arguments: Victim.Build.allCases)
    func killedHostIsReportedOnceWhenItStartsNext(build: Victim.Build) throws {
      let state = try State()
      let killed = try state.runAndKill(build: build)
      #expect(killed.reports.allSatisfy { $0.event == "stall.started" || $0.event == "stall.ongoing" })
      try expectFatal(try state.restart(), culprit: "blockBySleeping()", after: killed)
      #expect(state.files.isEmpty)
      #expect(try state.restart().reports.isEmpty)
    }

    @Test("a stall of the whole task pool is reported when the service starts next")
    func killedHostWithAStalledPool() throws {
      let state = try State()
      let environment = state.environment([
        "STALLMONITOR_THRESHOLD": "50ms", "STALLMONITOR_SERVICE_NAME": "pool",
      ])
      let killed = try Victim.run(
        "many-blocked", milliseconds: 30_000, environment: environment,
        program: Victim.Build.debug.executable("TaskVictim")
      ) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        // A record has space for two lines: with the second one, the first is whole.
        try waitUntil("a record of the pool's stall: \(state.files)") {
          state.files.contains { name in
            let record = try? Data(contentsOf: URL(filePath: "\(state.path)/\(name)"))
            return record?.ranges(of: Data("cooperative-pool".utf8)).count == 2
          }
        }
      }
      // A start that ends at once leaves records for the next one.
      let fatal = try state.restart(milliseconds: 1000, environment: environment).reports("stall.fatal")
      let pool = try #require(fatal.first { $0["loop", "kind"] as? String == "cooperative-pool" }, "\(fatal.count)")
      let started = killed.reports("stall.started").filter { $0["loop", "kind"] as? String == "cooperative-pool" }
      // The line may have been on its way when the process ended.
      #expect(started.isEmpty || started.map(\.id) == [pool.id])
    }

    @Test(
      "a stall that is over when the process ends is not reported as fatal",
      arguments: [("end-after-all-blocked", "cooperative-pool"), ("end-after-an-actors-stall", "task-pool")])
    func hostThatEndsAfterItsStall(scenario: String, kind: String) throws {
      let state = try State()
      let environment = state.environment([
        "STALLMONITOR_THRESHOLD": "100ms", "STALLMONITOR_SERVICE_NAME": "pool",
        "STALLMONITOR_SINK": "file:\(state.path)/lines",
      ])
      let ended = try Victim.run(
        scenario, milliseconds: TestMachine.stall(900), environment: environment,
        program: Victim.Build.debug.executable("TaskVictim"))
      #expect(ended.status == 0)
      let lines = try String(contentsOfFile: "\(state.path)/lines", encoding: .utf8)
      #expect(lines.contains("\"kind\":\"\(kind)\""), "\(lines)")
      #expect(try state.restart(milliseconds: 300, environment: environment).status == 0)
      // Another thread may block still: its stall.fatal is right.
      let fatal = try String(contentsOfFile: "\(state.path)/lines", encoding: .utf8).split(separator: "\n").filter {
        $0.contains("stall.fatal") && $0.contains("\"kind\":\"\(kind)\"")
      }
      #expect(fatal.isEmpty)
    }

    @Test(arguments: ["segfault-in-stall", "abort-in-stall", "bare-exit-in-stall"])
    func hostThatEndsInItsLateTurnIsReported(scenario: String) throws {
      let state = try State()
      // Names that the first report has no time for come with the next samples.
      let milliseconds = TestMachine.isEmulated ? 10_000 : 400
      let ended = try Victim.run(scenario, milliseconds: milliseconds, environment: state.environment)
      #expect(TestMachine.events(ended.reports) == ["stall.started"])
      try expectFatal(try state.restart(), culprit: "blockBySleeping()", after: ended)
      #expect(state.files.isEmpty)
    }

    @Test func stoppedMonitorLeavesNothing() throws {
      let state = try State()
      let ended = try Victim.run("exit-in-stall", milliseconds: TestMachine.stall(200), environment: state.environment)
      #expect(TestMachine.events(ended.reports) == ["stall.started", "stall.ended"])
      #expect(state.files.isEmpty)
      #expect(try state.restart().reports.isEmpty)
    }

    /// On one processor the watchdog does not run between the end of the stall and the end of the process.
    ///
    /// The stall is long, so that its beginning is written on a busy machine, too.
    @Test func hostThatEndsJustAfterItsStallIsNotReported() throws {
      for _ in 0..<4 {
        let state = try State()
        let ended = try Victim.run(
          "exit-after-stall", milliseconds: TestMachine.stall(1000), environment: state.environment,
          through: ["/usr/bin/taskset", "-c", "0"])
        #expect(ended.reports.first?.event == "stall.started")
        #expect(try state.restart().reports.isEmpty)
        #expect(state.files.isEmpty)
      }
    }

    @Test func killedHealthyHostLeavesNothing() throws {
      let state = try State()
      let killed = try Victim.run(
        "stall-then-idle", milliseconds: TestMachine.stall(200), environment: state.environment
      ) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        try state.wait()
        try state.wait(untilEmpty: true)
      }
      #expect(killed.status == SIGKILL)
      #expect(killed.reports.first?.event == "stall.started")
      #expect(state.files.isEmpty)
      #expect(try state.restart().reports.isEmpty)
    }

    @Test func twoStartsAtOnceReportItOnce() throws {
      for _ in 0..<3 {
        let state = try State()
        let killed = try state.runAndKill()
        let lines = FileManager.default.temporaryDirectory.appending(path: "stalld-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: lines) }
        let starts = try (0..<3).map { _ in
          try Program.start(
            Victim.Build.debug.executable("StallVictim").path, ["never-runs", "1"],
            environment: state.environment(["STALLMONITOR_SINK": "file:\(lines.path)"]), errors: FileHandle.nullDevice)
        }
        for start in starts { start.waitUntilExit() }
        let written = try Data(contentsOf: lines)
        try ReportSchema.expectValid(written)
        let told = try #require(killed.reports.first)
        #expect(try written.split(separator: UInt8(ascii: "\n")).map { try WrittenReport($0).id } == [told.id])
        #expect(state.files.isEmpty)
      }
    }

    /// Short stalls one after the other, so that the record is made, renewed and removed all the time.
    @Test func killAtAnyMomentLeavesAWholeLineOrNone() throws {
      // On an emulated processor, a stall is seen if it lasts while its names are read.
      let (stall, moments) = TestMachine.isEmulated ? (3000, UInt32(9_000_000)) : (20, 60_000)
      for _ in 0..<6 {
        let state = try State()
        let environment = state.environment(["STALLMONITOR_THRESHOLD": "5ms"])
        // To a file: a kill may cut a line, and a pipe that nobody reads yet certainly does.
        let lines = FileManager.default.temporaryDirectory.appending(path: "stalld-\(UUID().uuidString).jsonl")
        defer { try? FileManager.default.removeItem(at: lines) }
        let sink = environment.merging(["STALLMONITOR_SINK": "file:\(lines.path)"]) { $1 }
        _ = try Victim.run("stalls", milliseconds: stall, environment: sink) { process in
          defer { kill(process.processIdentifier, SIGKILL) }
          try state.wait()
          usleep(.random(in: 0...moments))
        }
        let ended = try String(contentsOf: lines, encoding: .utf8).split(separator: "\n")
          .filter { $0.contains(#""stall.ended""#) }
        let restarted = try state.restart(environment: environment)
        #expect(restarted.reports.count <= 1)
        #expect(restarted.talk.split(separator: "\n").allSatisfy { $0.hasPrefix("victim: ") }, "\(restarted.talk)")
        for report in restarted.reports {
          #expect(report.event == "stall.fatal")
          #expect(!ended.contains { $0.contains(report.id) })
        }
        #expect(state.files.isEmpty)
      }
    }

    // MARK: The directory

    @Test func filesThatAreNoRecordsAreLoggedAndLeftAlone() throws {
      let state = try State()
      _ = try state.runAndKill()
      let name = try #require(state.files.first)
      let record = URL(fileURLWithPath: "\(state.path)/\(name)")
      let whole = try Data(contentsOf: record)
      try FileManager.default.removeItem(at: record)
      let prefix = name.split(separator: "-").prefix(2).joined(separator: "-")
      func place(_ suffix: String) -> String { "\(state.path)/\(prefix)-\(suffix)" }
      var future = whole
      future[8] = 2
      var damaged = whole
      damaged[4096 + 200] ^= 1
      damaged[4096 + 8192 + 200] ^= 1
      try Data().write(to: URL(fileURLWithPath: place("empty")))
      try whole.prefix(9000).write(to: URL(fileURLWithPath: place("truncated")))
      try (whole + [0]).write(to: URL(fileURLWithPath: place("longer")))
      try future.write(to: URL(fileURLWithPath: place("future")))
      try damaged.write(to: URL(fileURLWithPath: place("damaged")))
      try Data(repeating: 0xff, count: whole.count).write(to: URL(fileURLWithPath: place("garbage")))
      try Data().write(to: URL(fileURLWithPath: place("huge")))
      #expect(truncate(place("huge"), 1 << 40) == 0)
      #expect(mkfifo(place("fifo"), 0o600) == 0)
      #expect(symlink("/etc/passwd", place("link")) == 0)
      #expect(mkdir(place("directory"), 0o700) == 0)
      let count = state.files.count
      #expect(count == 10)
      // The messages are written beside the service's own work.
      let restarted = try state.restart(milliseconds: 1000)
      #expect(restarted.status == 0)
      #expect(restarted.facts["watching"] == "true")
      #expect(restarted.reports.isEmpty)
      let said = restarted.talk.split(separator: "\n").filter { $0.contains(" is ignored: ") }
      #expect(said.count == count, "\(restarted.talk)")
      for file in state.files { #expect(said.count { $0.contains("/\(file) ") } == 1) }
      #expect(state.files.count == count)
    }

    @Test func otherServicesRecordsAreNotReported() throws {
      let state = try State()
      let killed = try state.runAndKill()
      let other = state.environment(["STALLMONITOR_SERVICE_NAME": "another"])
      #expect(try state.restart(environment: other).reports.isEmpty)
      try expectFatal(try state.restart(), culprit: "blockBySleeping()", after: killed)
    }

    /// On a disk, the loop could have to wait for the record, so the record is in memory.
    @Test(.disabled(if: TestMachine.hasTemporaryFilesInMemory, "temporary files are not on a disk"))
    func directoryOnADiskIsNotUsedForTheRecord() throws {
      let disk = FileManager.default.temporaryDirectory.appending(path: "stalld-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: disk, withIntermediateDirectories: false)
      defer { try? FileManager.default.removeItem(at: disk) }
      let environment = ["STALLMONITOR_STATE_DIRECTORY": disk.path, "STALLMONITOR_THRESHOLD": "50ms"]
      let killed = try Victim.run("sleep", milliseconds: 30_000, environment: environment) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        let name = "-\(process.processIdentifier)-"
        // Names have a time budget: those that the first report lacks come with the next samples.
        try waitUntil("the record of the stall has lines", within: 20) {
          try FileManager.default.contentsOfDirectory(atPath: "/dev/shm")
            .contains { $0.contains(name) && Self.hasLines("/dev/shm/\($0)") }
        }
        // The record is written before the line.
        _ = eventually(within: 20) { process.hasWritten }
      }
      try expectFatal(
        try Victim.run("never-runs", milliseconds: 1, environment: environment), culprit: "blockBySleeping()",
        after: killed)
      #expect(try FileManager.default.contentsOfDirectory(atPath: disk.path).isEmpty)
    }

    @Test func directoryOfSystemdIsUsed() throws {
      let state = try State()
      var environment = state.environment
      environment["STALLMONITOR_STATE_DIRECTORY"] = ""
      environment["STATE_DIRECTORY"] = "\(state.path):/nowhere"
      let killed = try state.runAndKill(environment: environment)
      try expectFatal(try state.restart(environment: environment), culprit: "blockBySleeping()", after: killed)
    }

    @Test(arguments: ["/nowhere/at/all", "/etc/passwd"])
    func directoryThatCannotBeUsedIsNamedAndTheHostIsWatched(path: String) throws {
      let victim = try Victim.run(
        "sleep", milliseconds: TestMachine.stall(600), environment: ["STALLMONITOR_STATE_DIRECTORY": path])
      #expect(victim.facts["watching"] == "true")
      #expect(TestMachine.events(victim.reports) == ["stall.started", "stall.ended"])
      #expect(victim.talk.split(separator: "\n").count { !$0.hasPrefix("victim: ") && $0.contains(path) } == 1)
    }

    /// A mount of its own, which takes root.
    @Test(.enabled(if: geteuid() == 0), arguments: [("size=8k", "No space left"), ("ro", "Read-only file system")])
    func directoryThatTakesNothingIsNamedAndTheHostIsWatched(option: String, reason: String) throws {
      let state = try State()
      let mount = ["/usr/bin/unshare", "--mount", "/bin/sh", "-c"]
      let victim = try Victim.run(
        "stalls-twice", milliseconds: TestMachine.stall(200),
        environment: state.environment.merging(["STALLMONITOR_REPEAT_WINDOW": "0s"]) { $1 },
        through: mount + [#"mount -t tmpfs -o \#(option) tmpfs \#(state.path) && exec "$@""#, "sh"])
      #expect(victim.status == 0)
      #expect(
        TestMachine.events(victim.reports) == ["stall.started", "stall.ended", "stall.started", "stall.ended"])
      let said = victim.talk.split(separator: "\n").filter { !$0.hasPrefix("victim: ") && !$0.contains("detail file") }
      #expect(said.count == 1, "\(victim.talk)")
      #expect(said.first?.contains(state.path) == true && said.first?.contains(reason) == true)
    }

    // MARK: Forks

    @Test(arguments: [
      ("child-exits-in-stall", "7"), ("child-is-killed-in-stall", "-9"), ("child-executes-in-stall", "0"),
      ("child-is-the-service", "0"), ("child-goes-on", "9"),
    ])
    func childOfAForkIsUnwatchedAndUnharmed(scenario: String, end: String) throws {
      let state = try State()
      let victim = try Victim.run(scenario, milliseconds: TestMachine.stall(150), environment: state.environment)
      #expect(victim.status == 0)
      #expect(victim.facts["child-ended"] == end)
      #expect(victim.reports.first?.event == "stall.started")
      #expect(victim.reports.last?.event == "stall.ended")
      #expect(Set(victim.reports.map(\.id)).count == 1, "the child's stalls are not told")
      if scenario == "child-goes-on" {
        #expect(victim.facts["child-watching"] == "false")
        #expect(victim.facts["child-wakeups"] == "0")
      }
      #expect(state.files.isEmpty)
      #expect(try state.restart().reports.isEmpty)
    }

    @Test func childMayWatchItself() throws {
      let victim = try Victim.run(
        "child-watches-itself", milliseconds: TestMachine.stall(150), environment: try State().environment)
      #expect(victim.facts["child-ended"] == "9")
      let child = try #require(victim.facts["child"].flatMap { Int($0) })
      let own = victim.reports.filter { $0["process", "pid"] as? Int == child }
      #expect(TestMachine.events(own) == ["stall.started", "stall.ended"])
      #expect(TestMachine.named(own).allSatisfy { $0.culprit.contains("blockBySleeping()") })
    }

    /// The child's main loop comes into being after its monitor, and the parent's has none.
    ///
    /// The stall is long, so that a watchdog that gets no processor for a while sees it begin, too.
    @Test func childOfAThreadWithoutALoopMayWatchItself() throws {
      let victim = try Victim.run(
        "child-of-thread-watches-itself", milliseconds: TestMachine.stall(1000), environment: try State().environment)
      #expect(victim.facts["child-ended"] == "9")
      let child = try #require(victim.facts["child"].flatMap { Int($0) })
      // On a busy machine it lasts for longer than a second, and is reported once more.
      #expect(victim.reports.map(\.event).filter { $0 != "stall.ongoing" } == ["stall.started", "stall.ended"])
      #expect(TestMachine.named(victim.reports).allSatisfy { $0.culprit.contains("blockBySleeping()") })
      #expect(victim.reports.allSatisfy { $0["process", "pid"] as? Int == child })
      #expect(victim.reports.allSatisfy { $0["loop", "kind"] as? String == "loop" })
    }

    /// A child that lives on must not pass for its parent.
    @Test func parentIsReportedThoughItsChildLives() throws {
      let state = try State()
      let killed = try Victim.run(
        "child-outlives", milliseconds: TestMachine.stall(400), environment: state.environment
      ) { process in
        defer { kill(process.processIdentifier, SIGKILL) }
        let children = "/proc/\(process.processIdentifier)/task/\(process.processIdentifier)/children"
        let end = Date(timeIntervalSinceNow: 20)
        while (try? String(contentsOfFile: children, encoding: .utf8))?.isEmpty != false {
          try #require(Date.now < end)
          usleep(1000)
        }
        // The child has closed its descriptors by then, and the parent has said who it is.
        usleep(100_000)
      }
      let child = try #require(killed.facts["child"].flatMap { Int32($0) })
      defer { kill(child, SIGKILL) }
      try #require(killed.status == SIGKILL)
      #expect(kill(child, 0) == 0)
      try expectFatal(try state.restart(), culprit: "blockBySleeping()", after: killed)
    }
  }
}
