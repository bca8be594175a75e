import Foundation
import Glibc
import TestSupport
import Testing

@testable import stalld

/// A disk that is full: the agent continues, counts, and recovers by itself.
@Suite(
  .serialized, .takingTurns, .timeLimit(.minutes(3)),
  .enabled(if: geteuid() == 0, "mounting a small file system needs root"))
struct OutputDiskFullTests {
  @Test func linesWaitWholeUntilThereIsSpace() throws {
    let disk = try SmallDisk(size: "256k")
    let path = disk.path + "/stalls.jsonl"
    let ends = DescriptorPair.pipe()
    defer { for end in ends { close(end) } }
    let bench = try OutputBench([.file(.init(path: path)), .standardOutput], standardOutput: ends[1])
    try disk.fill(leaving: 40_960)
    // No multiple of a page: the last one is taken in part.
    bench.submit(0..<16, size: 3000)
    try waitUntil { bench.writer.counters().outputs[0].errors > 2 }
    let written = try OutputBench.numbers(in: path)
    #expect(written.count > 5 && written.count < 16)
    #expect(bench.done == written.count, "what is not on the disk is not done")
    #expect(bench.writer.counters().outputs[1].lines == 16, "the other output is not held up")
    #expect(bench.errors.count == 1 && bench.errors[0].contains("No space left on device"), "\(bench.said)")
    #expect(bench.errors[0].contains(path))
    bench.submit(16..<18, size: 3000)
    try disk.makeSpace()
    try bench.waitUntilDone(18)
    #expect(try OutputBench.numbers(in: path) == Array(0..<18))
    bench.stop()
    #expect(bench.said.count == 2 && bench.said[1].contains("accepts writes again"), "\(bench.said)")
    #expect(bench.writer.counters().outputs[0].dropped == 0)
  }

  @Test(arguments: [0, O_APPEND])
  func standardOutputMayBeAFileOnAFullDisk(flags: Int32) throws {
    let disk = try SmallDisk(size: "256k")
    let path = disk.path + "/out"
    let output = open(path, O_WRONLY | O_CREAT | flags, 0o600)
    defer { close(output) }
    try disk.fill(leaving: 40_960)
    let bench = try OutputBench([.standardOutput], standardOutput: output)
    bench.submit(0..<16, size: 3000)
    try waitUntil { bench.writer.counters().outputs[0].errors > 2 }
    #expect(try OutputBench.numbers(in: path).count == bench.done)
    try disk.makeSpace()
    try bench.waitUntilDone(16)
    #expect(try OutputBench.numbers(in: path) == Array(0..<16))
    bench.stop()
  }

  @Test func agentStartsOnAFullDisk() throws {
    let disk = try SmallDisk(size: "256k")
    try disk.fill()
    let path = disk.path + "/stalls.jsonl"
    let bench = try OutputBench(file: .init(path: path))
    bench.submit(0..<3)
    try waitUntil { bench.writer.counters().outputs[0].isFailing }
    #expect(bench.done == 0)
    try disk.makeSpace()
    try bench.waitUntilDone(3)
    #expect(try OutputBench.numbers(in: path) == [0, 1, 2])
    bench.stop()
  }

  @Test func rotatedFileStaysWhileThereIsNoSpaceToCompressIt() throws {
    let disk = try SmallDisk(size: "512k")
    let path = disk.path + "/stalls.jsonl"
    let plain = path + ".2026-11-21T10-39-01.000000Z"
    // What does not compress well.
    let noise = (0..<6000).map { "{\"number\":\($0),\"noise\":\"\(UUID())\"}\n" }.joined()
    try Data(noise.utf8.prefix(390_000)).write(to: URL(fileURLWithPath: plain))
    let bytes = try Data(contentsOf: URL(fileURLWithPath: plain))
    try disk.fill(leaving: 40_960)
    let bench = try OutputBench(file: .init(path: path))
    try waitUntil { bench.errors.contains { $0.contains("cannot compress") } }
    #expect(try Data(contentsOf: URL(fileURLWithPath: plain)) == bytes)
    #expect(RotatedFile.all(besides: path).map(\.form) == [.plain], "nothing unfinished stays")
    bench.stop()
  }
}
