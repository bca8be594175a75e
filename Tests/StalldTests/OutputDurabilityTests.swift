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

  /// The default; if this fails, the test above proves nothing.
  @Test func whatIsNotSynchronisedNeedNot() throws {
    let disk = try LoopDisk()
    let bench = try OutputBench(file: .init(path: disk.path + "/stalls.jsonl"))
    bench.submit(0..<100)
    try bench.waitUntilDone(100)
    #expect(try disk.afterPowerCut("stalls.jsonl").isEmpty)
    bench.stop()
  }
}
