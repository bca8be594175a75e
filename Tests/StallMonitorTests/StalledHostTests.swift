import Foundation
import TestSupport
import Testing

extension WatchedHosts {
  /// Hosts that stall in a known function in a known way, judged by their report lines.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "durations are compared with the victim's own clock"))
  struct StalledHostTests {
    struct Known: Sendable, CustomTestStringConvertible {
      var scenario: String
      var culprit: String
      var cause: String
      var file: String
      /// The marker in the source that the culprit's line carries.
      var marker: String?

      var testDescription: String { scenario }
    }

    static let known = [
      Known(
        scenario: "compute", culprit: "blockByComputing()", cause: "running", file: "main.swift", marker: "computing"),
      Known(scenario: "sleep", culprit: "blockBySleeping()", cause: "sleep", file: "main.swift", marker: "sleeping"),
      Known(scenario: "select", culprit: "blockBySelecting()", cause: "sleep", file: "main.swift"),
      Known(scenario: "c-compute", culprit: "hidden_c_computation", cause: "running", file: "victim.c"),
      Known(scenario: "c-sleep", culprit: "hidden_c_sleep", cause: "sleep", file: "victim.c"),
    ]

    @Test(arguments: known, Victim.Build.allCases)
    func stallIsReportedWithItsFunction(known: Known, build: Victim.Build) throws {
      let victim = try Victim.run(known.scenario, milliseconds: TestMachine.stall(600), build: build)
      #expect(victim.status == 0)
      #expect(TestMachine.events(victim.reports) == ["stall.started", "stall.ended"])
      let took = try #require(victim.facts["took_ms"].flatMap(Double.init))
      for report in TestMachine.named(victim.reports) {
        #expect(report.culprit.contains(known.culprit))
        #expect(report.isCaused(by: known.cause))
        let frame = try #require(report.culpritFrame)
        // Names have a time budget: on a busy machine the first report may lack lines.
        if report.event == "stall.started", frame["line"] == nil { continue }
        let file = try #require(frame["file"] as? String)
        #expect(file.hasSuffix("/" + known.file))
        let line = frame["line"] as? Int
        // A computation may be met at one of the compiler's own instructions, which have none.
        #expect(line != nil || known.cause == "running")
        if let line, let marker = known.marker {
          let source = try String(contentsOf: URL(fileURLWithPath: file), encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false)
          // The loop's condition is as true a place as its body.
          #expect(source[max(0, line - 2)...line].contains { $0.hasSuffix("// line: \(marker)") }, "line \(line)")
        }
        for frame in report.stack {
          #expect(frame["module"] is String)
          #expect(frame["build_id"] is String)
          #expect(frame["offset"] is String)
        }
        var capture = try #require(report["stall", "capture"] as? [String: Any])
        // On aarch64, a sample in the kernel's code for clock_gettime is approximate.
        if TestMachine.isEmulated, known.cause == "running" { capture["approximate"] = nil }
        #expect(Array(capture.keys) == ["method"], "the stack is whole and exact")
        #expect(report["service", "name"] as? String == "StallVictim")
        #expect(report["loop", "mode"] as? String == "default")
      }
      let ended = try #require(victim.reports.last)
      // The turn is at least as long as what the victim measured inside it.
      #expect(ended.duration >= took - 1)
      #expect(ended.duration <= took * 1.05 + 60)
      #expect(Set(victim.reports.map(\.id)).count == 1)
      #expect(Set(TestMachine.named(victim.reports).compactMap { $0["stall", "fingerprint"] as? String }).count == 1)
    }

    /// A host's call must not fail with EINTR, nor end early, because the host is watched.
    @Test(arguments: ["sleep", "select", "c-sleep"])
    func watchedCallIsNotInterrupted(scenario: String) throws {
      let milliseconds = TestMachine.stall(1500)
      let victim = try Victim.run(scenario, milliseconds: milliseconds, environment: ["STALLMONITOR_THRESHOLD": "20ms"])
      #expect(victim.facts["errno"] == "0")
      #expect(try #require(victim.facts["took_ms"].flatMap(Double.init)) >= Double(milliseconds))
      #expect((victim.reports.last?["stall", "samples"] as? Int ?? 0) >= 3)
    }

    @Test func longStallIsReportedWhileItLasts() throws {
      let victim = try Victim.run("compute", milliseconds: TestMachine.stall(3500))
      let events = victim.reports.map(\.event)
      #expect(events.first == "stall.started" && events.last == "stall.ended")
      #expect(events.dropFirst().dropLast().allSatisfy { $0 == "stall.ongoing" })
      let durations = victim.reports.map(\.duration)
      #expect(durations == durations.sorted())
      // After 1 s, 2 s, and, on an emulated processor, 4 s and 8 s. A sample may take until the next of these.
      try #require(TestMachine.isEmulated ? (3...6).contains(events.count) : events.count == 4, "\(events)")
      #expect(durations[1] >= 1000)
      #expect(durations[2] >= 2000)
      let sequences = victim.reports.compactMap { $0["stall", "sequence"] as? Int }
      #expect(sequences == Array(1...events.count))
    }

    @Test func thresholdComesFromTheEnvironment() throws {
      let below = try Victim.run("compute", milliseconds: 400, environment: ["STALLMONITOR_THRESHOLD": "0.9s"])
      #expect(below.reports.isEmpty)
      let above = try Victim.run("compute", milliseconds: 120, environment: ["STALLMONITOR_THRESHOLD": "50ms"])
      #expect(above.reports.map(\.event) == ["stall.started", "stall.ended"])
      #expect(above.reports.first?["stall", "threshold_ms"] as? Double == 50)
    }

    @Test func slowWorkThatIsExpectedIsNotReported() throws {
      let expected = try Victim.run("expected", milliseconds: 700)
      #expect(expected.reports.isEmpty)
      let milliseconds = TestMachine.stall(700)
      let more = try Victim.run("expected-and-more", milliseconds: milliseconds)
      #expect(TestMachine.events(more.reports) == ["stall.started", "stall.ended"])
      #expect(TestMachine.named(more.reports).allSatisfy { $0.culprit == "hidden_c_computation" })
      #expect(more.reports.last?.duration ?? 0 < Double(milliseconds) + 300)
    }

    @Test func stallInANestedRunIsReported() throws {
      let victim = try Victim.run("stall-in-nested", milliseconds: TestMachine.stall(500))
      #expect(TestMachine.events(victim.reports) == ["stall.started", "stall.ended"])
      #expect(victim.reports.first?["loop", "mode"] as? String == "private")
      #expect(TestMachine.named(victim.reports).contains { $0.culprit.contains("blockByComputing()") })
    }

    /// Nothing is named that is not known: the culprit is a place that `addr2line` finds in the build with symbols.
    @Test func strippedHostGivesThePlace() throws {
      let built = try Victim.Build.release.executable("StallVictim")
      let stripped = FileManager.default.temporaryDirectory.appending(path: "stripped-\(UUID().uuidString)")
      defer { try? FileManager.default.removeItem(at: stripped) }
      _ = try output(of: ["/usr/bin/strip", "--strip-all", "-o", stripped.path, built.path])
      let victim = try Victim.run("c-sleep", milliseconds: TestMachine.stall(500), program: stripped)
      let report = try #require(victim.reports.last)
      let frame = try #require(report.stack.first { $0["module"] as? String == stripped.path })
      let offset = try #require(frame["offset"] as? String)
      #expect(report.culprit == "\(stripped.lastPathComponent)+\(offset)")
      #expect(frame["build_id"] is String)
      #expect(try output(of: ["/usr/bin/addr2line", "-f", "-e", built.path, offset]).hasPrefix("hidden_c_sleep\n"))
    }

    private func output(of command: [String]) throws -> String {
      let program = try Program.run(command[0], Array(command.dropFirst()))
      #expect(program.status == 0, "\(program.errors)")
      return program.output
    }

    @Test func deepStackLosesFramesFromTheMiddle() throws {
      // Optimized, it has fewer frames.
      let victim = try Victim.run("deep", milliseconds: TestMachine.stall(500), build: .debug)
      let report = try #require(TestMachine.named(victim.reports).first)
      #expect(report.culprit.contains("blockByComputing()"))
      let omitted = try #require(report["frames_omitted"] as? Int)
      #expect(omitted > 200)
      #expect(report.stack.count + omitted > 300)
      #expect(report.stack.last?["symbol"] as? String == "_start")
    }

    @Test func stallThatTheHostEndsInIsClosed() throws {
      let victim = try Victim.run("exit-in-stall", milliseconds: 500)
      #expect(victim.status == 0)
      #expect(TestMachine.events(victim.reports) == ["stall.started", "stall.ended"])
      #expect(victim.reports.last?["stall", "evidence", "watch_ended"] as? Bool == true)
    }
  }
}
