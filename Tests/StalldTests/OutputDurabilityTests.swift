import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// What of a file is on the disk after a power cut, by its `fsync` setting.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: LoopDisk.obstacle == nil, Comment(rawValue: "skipped: \(LoopDisk.obstacle ?? "")")))
struct OutputDurabilityTests {
  @Test(arguments: [AgentSettings.Output.Fsync.each, .interval])
  func whatIsSynchronisedOutlivesAPowerCut(_ policy: AgentSettings.Output.Fsync) throws {
    let disk = try LoopDisk()
    let path = disk.path + "/stalls.jsonl"
    let bench = try OutputBench(file: .init(path: path, fsync: policy))
    bench.submit(0..<100)
    try bench.waitUntilDone(100)
    if policy == .interval {
      try waitUntil { try disk.afterPowerCut("stalls.jsonl").count(where: { $0 == UInt8(ascii: "\n") }) == 100 }
    }
    #expect(try OutputBench.numbers(disk.afterPowerCut("stalls.jsonl")) == Array(0..<100))
    bench.stop()
  }

  /// An agent that cannot keep the promise of `interval` is not healthy until it can.
  @Test func diskThatCannotBeSynchronisedIsSeen() throws {
    let below = try SmallDisk(size: "4m")
    let disk = try LoopDisk(imageIn: below.path)
    let bench = try OutputBench(file: .init(path: disk.path + "/stalls.jsonl", fsync: .interval))
    bench.submit(0..<10)
    try bench.waitUntilDone(10)
    try below.fill()
    bench.submit(10..<20, size: 4096)
    try bench.waitUntilDone(20)
    try waitUntil { bench.writer.counters().outputs[0].state == "cannot synchronise" }
    try waitUntil { bench.errors.contains { $0.contains("cannot synchronise: No space left on device") } }
    try below.makeSpace()
    try waitUntil { bench.writer.counters().outputs[0].state == "ok" }
    try waitUntil { bench.said.contains { $0.contains("synchronises again after") } }
    #expect(bench.errors.count == 1)
    bench.stop()
  }

  /// Not only an output that lines wait for can be stuck.
  @Test func diskThatHangsInSynchronisationIsStuck() throws {
    let below = try LoopDisk()
    let disk = try LoopDisk(imageIn: below.path)
    let bench = try OutputBench(file: .init(path: disk.path + "/stalls.jsonl", fsync: .interval))
    try below.freeze()
    bench.submit(0..<10)
    try bench.waitUntilDone(10)
    try waitUntil { bench.writer.counters().outputs[0].waiting > .seconds(1) }
    #expect(bench.writer.counters().outputs[0].queuedLines == 0)
    try below.thaw()
    try waitUntil { bench.writer.counters().outputs[0].waiting == .zero }
    bench.stop()
  }

  /// The default; if this fails, the first test proves nothing.
  @Test func whatIsNotSynchronisedNeedNot() throws {
    let disk = try LoopDisk()
    let bench = try OutputBench(file: .init(path: disk.path + "/stalls.jsonl"))
    bench.submit(0..<100)
    try bench.waitUntilDone(100)
    #expect(try disk.afterPowerCut("stalls.jsonl").isEmpty)
    bench.stop()
  }
}
