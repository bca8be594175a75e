import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor

extension WatchedHosts {
  /// The actions of a service in a stall, in addition to reports.
  @Suite(
    .serialized, .takingTurns, .repeatedAfterStandstills(because: "actions come after a time"))
  struct ActionTests {
    @Test func closureIsCalledOnceForEachLevel() throws {
      let notices = FileManager.default.temporaryDirectory.appending(path: "notices-\(UUID().uuidString)")
      defer { try? FileManager.default.removeItem(at: notices) }
      let victim = try Victim.run(
        "sleep", milliseconds: 1500, environment: ["VICTIM_ACTIONS": "calls"],
        through: ["/bin/sh", "-c", "exec \"$@\" 9>\(notices.path)", "sh"])
      #expect(victim.status == 0)
      let id = try #require(victim.reports.first?.id)
      for name in ["first", "later"] {
        #expect(victim.talk.split(separator: "\n").count { $0.contains("\(name)-event=") } == 1)
        #expect(victim.facts["\(name)-id"] == id)
        #expect(victim.facts["\(name)-cause"] == "sleep")
        #expect(victim.facts["\(name)-loop"] == "main")
        #expect(victim.facts["\(name)-reported"] == "true")
        #expect(victim.facts["\(name)-culprit"] == "true")
      }
      #expect(victim.facts["first-event"] == "stall.started")
      #expect(victim.facts["later-event"] == "stall.ongoing")
      #expect(try #require(victim.facts["later-ms"].flatMap(Double.init)) >= 700)
      let lines = try Data(contentsOf: notices)
      try ReportSchema.expectValid(lines)
      #expect(try lines.split(separator: UInt8(ascii: "\n")).map { try WrittenReport($0).id } == [id, id])
    }

    /// A stall that is counted as a repetition also runs the actions.
    @Test func repetitionIsActedOnToo() throws {
      let victim = try Victim.run("repeated", milliseconds: 500, environment: ["VICTIM_ACTIONS": "calls"])
      let calls = victim.talk.split(separator: "\n").filter { $0.contains("first-event=") }
      #expect(calls.count == 5)
      #expect(calls.count { $0.contains("first-reported=true") } == victim.reports("stall.started").count)
      #expect(Set(victim.talk.split(separator: "\n").filter { $0.contains("first-id=") }).count == 5)
    }

    /// Also of a stall that is only counted.
    @Test func detailFileHasTheEndOfARepetition() throws {
      let state = try ScratchDirectory.inMemory()
      let victim = try Victim.run(
        "repeated", milliseconds: 500,
        environment: ["STALLMONITOR_WRITE_DETAIL_FILE_AFTER": "260ms", "STALLMONITOR_STATE_DIRECTORY": state.path])
      let folder = URL(filePath: state.path + "/stalls")
      let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
      #expect(files.count == 5 && victim.reports("stall.ended").count < 5)
      for file in files {
        let detail = try WrittenReport(Data(contentsOf: file))
        #expect(detail.duration >= 450, "\(detail)")
      }
    }

    @Test func noActionWithoutAStall() throws {
      let short = try Victim.run("sleep", milliseconds: 400, environment: ["STALLMONITOR_ABORT_AFTER": "60s"])
      #expect(short.status == 0)
      #expect(short.reports.map(\.event) == ["stall.started", "stall.ended"])
    }

    @Test func closureMayStopTheMonitor() throws {
      let victim = try Victim.run("sleep", milliseconds: 600, environment: ["VICTIM_ACTIONS": "stop"])
      #expect(victim.status == 0)
      #expect(victim.facts["stopped-inside"] == "true")
      #expect(victim.reports.map(\.event) == ["stall.started", "stall.ended"])
      #expect(victim.reports.last?["stall", "evidence", "watch_ended"] as? Bool == true)
    }

    @Test("no monitor starts until stop() of another thread has returned")
    func startWhileStopping() throws {
      let victim = try Victim.run("sleep", milliseconds: 1500, environment: ["VICTIM_ACTIONS": "start-while-stopping"])
      #expect(victim.status == 0)
      #expect(victim.talk.contains("started-meanwhile=another StallMonitor is active"), "\(victim.talk)")
      #expect(victim.facts["started-after"] == "true", "\(victim.talk)")
    }

    @Test func closureMayLookAtAllThreads() throws {
      let victim = try Victim.run("sleep", milliseconds: 600, environment: ["VICTIM_ACTIONS": "dump"])
      #expect(victim.status == 0)
      #expect(victim.facts["threads"] == "true")
    }

    @Test func detailFileIsThereWhileTheStallLasts() throws {
      let state = try ScratchDirectory.inMemory()
      let victim = try Victim.run(
        "sleep", milliseconds: 1500,
        environment: [
          "VICTIM_ACTIONS": "detail", "STALLMONITOR_STATE_DIRECTORY": state.path,
          "STALLMONITOR_SERVICE_NAME": String(repeating: "s", count: 300),
        ])
      let file = try #require(victim.facts["later-detail"])
      #expect(file.hasSuffix("/stalls/\(try #require(victim.reports.first).id).json"))
      #expect(victim.reports("stall.ongoing").last?["stall", "detail"] as? String == file)
      #expect(victim.reports.last?["stall", "detail"] as? String == file)
      let detail = try WrittenReport(Data(contentsOf: URL(filePath: file)))
      for path in [["service", "name"], ["host", "name"], ["loop", "name"], ["loop", "kind"]] {
        let value = victim.reports.last?[path[0], path[1]] as? String
        #expect(value != nil && detail[path[0], path[1]] as? String == value, "\(path)")
      }
      let none = try Victim.run(
        "sleep", milliseconds: 400,
        environment: ["STALLMONITOR_DETAIL_AFTER": "1s", "STALLMONITOR_STATE_DIRECTORY": "/nonexistent"])
      #expect(none.talk.contains("detail files are disabled") && none.reports.count == 2)
    }

    /// The last line has the stall, the process ends with SIGABRT, and its next start reports that.
    @Test(arguments: [("", "yes"), ("", "no"), ("ignored", "no"), ("blocked", "yes")])
    func processIsAborted(disposition: String, handler: String) throws {
      let state = try ScratchDirectory.inMemory()
      let environment = [
        "STALLMONITOR_STATE_DIRECTORY": state.path, "VICTIM_SIGABRT": disposition,
        "SWIFT_BACKTRACE": "enable=\(handler)", "STALLMONITOR_ABORT_AFTER": "600ms",
      ]
      let victim = try Victim.run("sleep", milliseconds: 60_000, environment: environment)
      #expect(victim.status == SIGABRT)
      #expect(victim.facts["took_ms"] == nil, "the host's code did not go on")
      #expect(victim.reports.map(\.event) == ["stall.started", "stall.ongoing"])
      let last = try #require(victim.reports.last)
      #expect(last["event", "action"] as? String == "abort")
      #expect(last.duration >= 600)
      #expect((last["message"] as? String)?.contains("aborts the process") == true)
      let next = try Victim.run("never-runs", milliseconds: 10, environment: environment)
      #expect(next.reports.map(\.event) == ["stall.fatal"])
      #expect(next.reports.first?.id == last.id)
      #expect(next.reports.first?["event", "action"] as? String == "abort")
      #expect(next.reports.first?.culprit.contains("blockBySleeping()") == true)
    }

    /// Nobody reads the lines: a process that is to end ends.
    @Test func abortDoesNotWaitForAReader() throws {
      let victim = try Victim.run(
        "sleep", milliseconds: 60_000,
        environment: ["STALLMONITOR_ABORT_AFTER": "600ms", "SWIFT_BACKTRACE": "enable=no"],
        through: ["/bin/bash", "-c", "exec 3<> <(:); head -c 65536 /dev/zero >&3; exec \"$@\" >&3", "bash"])
      #expect(victim.status == SIGABRT)
    }

    /// While the summary of repetitions is still to come, the loop is watched like any other.
    @Test func stallIsSeenWhileASummaryIsPending() throws {
      let victim = try Victim.run("counted-and-another", milliseconds: 1500)
      #expect(
        victim.reports.map(\.event) == [
          "stall.started", "stall.ended", "stall.started", "stall.ongoing", "stall.ended", "stall.suppressed",
        ])
      #expect(victim.reports.dropFirst(2).first?.culprit.contains("blockBySleeping()") == true)
    }
  }
}

/// When an action is due, to the nanosecond.
struct ActionPlanTests {
  @Test func actionsAreDueInTheOrderOfTheirTimes() {
    let plan = ActionPlan([
      .abort(after: .seconds(1)), .writeDetailFile(after: .seconds(1)), .writeDetailFile(after: .milliseconds(300)),
    ])
    #expect(plan.nextLevel(done: 0) == 300_000_000)
    #expect(plan.due(after: 299_999_999, done: 0).isEmpty)
    #expect(plan.due(after: 300_000_000, done: 0) == [.writeDetailFile])
    #expect(plan.nextLevel(done: 1) == 1_000_000_000)
    #expect(plan.due(after: 2_000_000_000, done: 1) == [.writeDetailFile, .abort], "what ends the process comes last")
    #expect(plan.nextLevel(done: 3) == nil)
    #expect(plan.due(after: .max, done: 3).isEmpty)
  }
}
