import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// Which threads are reported in a stall, and on demand.
  @Suite(.serialized, .timeLimit(.minutes(TestMachine.isEmulated ? 10 : 2)))
  struct ThreadSelectionTests {
    private func crowd(_ selection: String, _ count: Int = 500) throws -> (victim: Victim, report: WrittenReport) {
      // The search for threads ends after 200 ms: on an emulated processor there is time for a few of them, or for one. It is
      // made again during a long stall.
      let victim = try Victim.run(
        "crowd", milliseconds: TestMachine.isEmulated ? 8000 : 600,
        environment: [
          "STALLMONITOR_THREADS": selection, "VICTIM_CROWD": "\(count)", "STALLMONITOR_THRESHOLD": "50ms",
        ])
      // No call was interrupted.
      #expect(victim.facts["errno"] == "0")
      let threads = { (report: WrittenReport) in (report["threads"] as? [Any])?.count ?? 0 }
      let most = victim.reports.max { threads($0) < threads($1) }
      return (victim, try #require(TestMachine.isEmulated ? most : victim.reports.last))
    }

    @Test(arguments: ["none", "lock-holder"]) func otherThreadsAreNotCapturedByDefault(selection: String) throws {
      let report = try crowd(selection, 20).report
      #expect(report["threads"] == nil)
      #expect(report["threads_omitted"] == nil)
    }

    @Test func holderIsNotCapturedWithNone() throws {
      let victim = try Victim.run(
        // The first report may have no names there, by which a holder is judged.
        "lock", milliseconds: TestMachine.isEmulated ? 4000 : 300,
        environment: ["VICTIM_LOCK": "mutex", "STALLMONITOR_THREADS": "none", "STALLMONITOR_THRESHOLD": "50ms"])
      let report = try #require(victim.reports.last)
      #expect(report["threads"] == nil)
      #expect(report["stall", "evidence", "lock_holder"] as? Int == victim.facts["keeper"].flatMap { Int($0) })
    }

    @Test func runningThreadsAreReported() throws {
      let report = try crowd("running", TestMachine.isEmulated ? 10 : 50).report
      let threads = try #require(report["threads"] as? [[String: Any]])
      #expect(threads.allSatisfy { $0["role"] as? String == "running" && $0["state"] as? String == "running" })
      let names = Set(threads.compactMap { $0["name"] as? String })
      #expect(names.contains("crowd-0"))
      #expect(names.contains("crowd-1") || TestMachine.isEmulated && report["threads_omitted"] as? Int ?? 0 > 0)
      #expect(!threads.contains { $0["name"] as? String == "stall-watchdog" })
    }

    /// What does not fit into the line is counted.
    @Test func allThreadsAreReportedOrCounted() throws {
      let (victim, report) = try crowd("all")
      let threads = try #require(report["threads"] as? [[String: Any]])
      #expect(threads.count >= (TestMachine.isEmulated ? 1 : 3))
      #expect(threads.count + (report["threads_omitted"] as? Int ?? 0) == 500)
      #expect(victim.reports.last?.culprit.contains("blockBySleeping()") == true, "the loop's own stack is not lost")
      let others = threads.filter { $0["role"] as? String == "other" }
      #expect(TestMachine.isEmulated || !others.isEmpty)
      guard let other = others.first else { return }
      #if arch(arm64)
      // There is no such call: the C library makes it of another.
      #expect(other["state"] as? String == "ppoll(0 descriptors, no timeout)")
      #else
      #expect(other["state"] as? String == "pause")
      #endif
      #expect((other["stack"] as? [[String: Any]])?.first?["symbol"] as? String == "pause")
    }

    @Test func badSelectionIsNamed() throws {
      let victim = try Victim.run("compute", environment: ["STALLMONITOR_THREADS": "some"])
      #expect(victim.facts["watching"] == "false")
      #expect(victim.talk.contains("STALLMONITOR_THREADS=some"))
      #expect(victim.talk.contains("none, lock-holder, running, all"))
    }

    /// Five hundred threads of this process, on demand: none is held for longer than its own copy takes.
    @Test func dumpHasAllThreads() throws {
      let blocked = (0..<496).map { VictimThread(depth: 1 + $0 % 30, leaf: .read, settles: false) }
      let running = (0..<4).map { VictimThread(depth: 10 + $0, leaf: .spin, settles: false) }
      defer { (blocked + running).forEach { $0.release() } }
      blocked.forEach { $0.waitUntilItStands() }
      let slices = blocked.map { ThreadProbe(thread: $0.id, of: .own).schedule()?.timeslices }
      let dump = StallMonitor.captureAllThreads(timeLimit: .seconds(60))
      // None of the blocked threads has run: they were neither signalled nor paused.
      #expect(blocked.map { ThreadProbe(thread: $0.id, of: .own).schedule()?.timeslices } == slices)
      let threads = Dictionary(uniqueKeysWithValues: dump.map { ($0.threadID, $0) })
      for victim in blocked {
        let thread = try #require(threads[victim.id])
        #expect(!thread.isRunning && thread.failure == nil && !thread.isTruncated)
        #expect(thread.wait?.hasPrefix("read(fd ") == true && thread.wait?.contains("→ pipe:[") == true)
        #expect(thread.frames.contains { $0.symbol?.contains("VictimThread.(stand in ") == true })
      }
      for victim in running {
        let thread = try #require(threads[victim.id])
        #expect(thread.isRunning)
        #expect(thread.failure != nil || thread.frames.contains { $0.symbol?.contains("VictimThread") == true })
      }
      #expect(!dump.contains { $0.name == "stall-watchdog" || $0.name == "stall-dump" })
      // The thread that asks is blocked meanwhile, and is reported like any other.
      let asker = try #require(dump.first { $0.frames.contains { $0.symbol?.contains("captureAllThreads") == true } })
      #expect(asker.description.contains("captureAllThreads(timeLimit:"))
    }

    @Test func dumpWithoutTimeStillListsEachThread() {
      let victim = VictimThread(depth: 1, leaf: .read)
      defer { victim.release() }
      let thread = StallMonitor.captureAllThreads(timeLimit: .zero).first { $0.threadID == victim.id }
      #expect(thread?.failure == "the time limit, or the limit of 4096 threads, was reached")
      #expect(thread?.frames.isEmpty == true)
    }

    /// Without space for all, those that the loop waits for stay, and the others are counted.
    @Test(arguments: [0, 3, 500], [1, 40])
    func lineHasSpaceForTheLockHolder(others: Int, frames: Int) throws {
      let stack = (0..<frames).map { index in
        StackFrame(
          symbol: "function\(index)", file: "/src/a.swift", line: 1, module: "/usr/bin/host",
          buildID: "0123456789abcdef",
          offset: 16)
      }
      func thread(_ id: Int, _ role: StallReport.Report.OtherThread.Role) -> StallReport.Report.OtherThread {
        StallReport.Report.OtherThread(
          id: Int32(id), name: "a\n\"b\"\\", role: role, state: String(repeating: "\n\"", count: 400), stack: stack)
      }
      var report = StallReport.Report.stub(stack: stack)
      report.threads = [thread(1, .lockHolder), thread(2, .lockHolder)] + (0..<others).map { thread(3 + $0, .other) }
      report.threadsOmitted = 7
      let line = report.line()
      #expect(line.count <= StallReport.Report.longestLine)
      try ReportSchema.expectValid(Data(line))
      let read = try WrittenReport(Data(line))
      let threads = try #require(read["threads"] as? [[String: Any]])
      #expect(
        threads.prefix(2).allSatisfy {
          $0["role"] as? String == "lock_holder" && !($0["stack"] as? [Any] ?? []).isEmpty
        })
      #expect(threads.count + (read["threads_omitted"] as? Int ?? 0) == 2 + others + 7)
      #expect(!read.stack.isEmpty)
    }
  }
}

extension StallReport.Report {
  fileprivate static func stub(stack: [StackFrame]) -> StallReport.Report {
    StallReport.Report(
      time: Timestamp(seconds: 1, nanoseconds: 2), event: .ended, stallID: String(repeating: "0a", count: 16),
      sequence: 3, thresholdNanoseconds: 250_000_000, durationNanoseconds: 1_234_567_890,
      verdict: Verdict(cause: .lock, evidence: Verdict.Evidence(state: "blocked", wait: "futex(wait)")),
      culprit: stack.first, samples: 4,
      loop: .init(name: "main", kind: .loop, mode: "default", phase: .afterWaiting, callout: nil), threadID: 7,
      threadName: "host",
      origin: .init(
        processID: 7, executablePath: "/usr/bin/host", serviceName: "host", hostName: "h"), stack: stack)
  }
}
