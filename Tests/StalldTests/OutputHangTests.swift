import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// A disk that hangs: it holds up nobody else, and everybody sees it.
@Suite(
  .serialized, .takingTurns, .repeatedAfterStandstills(because: "an output hangs only after a time without an answer"),
  .timeLimit(.minutes(3)),
  .enabled(if: LoopDisk.obstacle == nil, Comment(rawValue: "skipped: \(LoopDisk.obstacle ?? "")")))
struct OutputHangTests {
  @Test func otherOutputsContinue() throws {
    let disk = try LoopDisk()
    let scratch = try ScratchDirectory()
    let (slow, other) = (disk.path + "/stalls.jsonl", scratch.url.appending(path: "other.jsonl").path)
    let bench = try OutputBench([.file(.init(path: slow)), .file(.init(path: other))])
    bench.submit(0..<10)
    try bench.waitUntilDone(10)
    try disk.freeze()
    for number in 10..<50 {
      bench.submit([number])
      usleep(5000)
    }
    try waitUntil("the other file has them") { bench.writer.counters().outputs[1].lines == 50 }
    #expect(try OutputBench.numbers(in: other) == Array(0..<50))
    #expect(bench.done == 10, "every required output must have a line before it is done")
    #expect(bench.writer.counters().outputs[0].queuedLines == 40)
    try disk.thaw()
    try bench.waitUntilDone(50)
    #expect(try OutputBench.numbers(in: slow) == Array(0..<50))
    bench.stop()
  }

  @Test func outputsAreChangedAndStoppedDuringAHang() throws {
    let disk = try LoopDisk()
    let scratch = try ScratchDirectory()
    let (slow, other) = (disk.path + "/stalls.jsonl", scratch.url.appending(path: "other.jsonl").path)
    let bench = try OutputBench(file: .init(path: slow))
    try disk.freeze()
    defer { try? disk.thaw() }
    bench.submit(0..<5)
    try waitUntil { bench.writer.counters().outputs[0].queuedLines == 5 }
    let changes = SharedCount()
    bench.writer.replace([.file(.init(path: slow)), .file(.init(path: other))]) { if $0 == nil { _ = changes.add(1) } }
    try waitUntil("a reload is done") { changes.value == 1 }
    bench.submit(5..<10)
    try waitUntil("the new output works") { bench.writer.counters().outputs.last?.lines == 5 }
    #expect(bench.done == 0)
    // What cannot be opened is refused.
    let new = disk.path + "/new.jsonl"
    bench.writer.replace([.file(.init(path: other)), .file(.init(path: new))]) { error in
      if error?.description.contains("\(new): does not respond") == true { _ = changes.add(1) }
    }
    try waitUntil("a reload is refused") { changes.value == 2 }
    // What it did not take goes to the one in its place.
    let third = scratch.url.appending(path: "third.jsonl").path
    bench.writer.replace([.file(.init(path: other)), .file(.init(path: third))]) { if $0 == nil { _ = changes.add(1) } }
    try waitUntil("a reload without it is done") { changes.value == 3 }
    try bench.waitUntilDone(10)
    #expect(try OutputBench.numbers(in: third) == Array(0..<10))
    #expect(try OutputBench.numbers(in: other) == Array(5..<10))
    bench.stop()
  }

  @Test func stopIsBounded() throws {
    let disk = try LoopDisk()
    let bench = try OutputBench(file: .init(path: disk.path + "/stalls.jsonl"))
    try disk.freeze()
    defer { try? disk.thaw() }
    bench.submit(0..<5)
    bench.writer.stop(within: .milliseconds(200))
    #expect(bench.done == 0)
    try disk.thaw()
  }

  @Test("status, metrics, /healthz and the journal report that a disk hangs")
  func everybodySeesIt() throws {
    let disk = try LoopDisk()
    let agent = try RunningAgent(
      """
      outputs: [{ type: file, path: \(disk.path)/stalls.jsonl }]
      metrics: { listen: "unix:PLACE/m" }
      """)
    func get(_ page: String) throws -> String {
      try Program.run("/usr/bin/curl", ["-s", "--unix-socket", agent.scratch.url.path + "/m", "http://x/\(page)"])
        .output
    }
    let client = try AgentClient(agent.socketPath)
    client.send(AgentClient.report(id: 1))
    agent.expect("it is written") { client.isAcknowledged(1) }
    #expect(try get("healthz").hasPrefix("ok"))
    try disk.freeze()
    defer { try? disk.thaw() }
    client.send(AgentClient.report(id: 2))
    agent.expect("the journal says so", within: 60) { agent.said.contains("stuck: nothing written for 1") }
    #expect(try get("healthz").contains("stuck: nothing written for"))
    #expect(try agent.status().outputs[0].state.hasPrefix("stuck: nothing written for "))
    let metrics = try get("metrics")
    let seconds = metrics.split(separator: "\n").first { $0.hasPrefix("stalld_output_stuck_seconds") }?
      .split(separator: " ").last.flatMap { Double($0) }
    #expect(try #require(seconds, "\(metrics)") >= 10)
    #expect(!client.isAcknowledged(2, within: 300))
    try disk.thaw()
    agent.expect("it goes on") { client.isAcknowledged(2) }
    agent.expect("and says so") { agent.said.contains("works again after") }
    #expect(try get("healthz").hasPrefix("ok"))
    #expect(agent.said.components(separatedBy: "stuck: nothing").count == 2, "once: \(agent.said)")
    #expect(agent.stop() == 0)
  }
}
