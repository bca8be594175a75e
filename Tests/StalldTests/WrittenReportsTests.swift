import Foundation
import TestSupport
import Testing

@testable import stalld

/// What the agent reads beside its output files when it starts.
@Suite(.timeLimit(.minutes(1))) struct WrittenReportsTests {
  @Test func pipesAndLinksAreNotRead() throws {
    let scratch = try ScratchDirectory()
    let (pipe, file) = (scratch.url.appending(path: "pipe").path, scratch.url.appending(path: "file").path)
    let link = scratch.url.appending(path: "link").path
    try #require(mkfifo(pipe, 0o600) == 0)
    try Data((SampleReport().text + "\n").utf8).write(to: URL(filePath: file))
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file)
    #expect(WrittenReports.identities(inFiles: [pipe]).isEmpty)
    #expect(WrittenReports.identities(inFiles: [link]).isEmpty)
    #expect(WrittenReports.identities(inFiles: [pipe, file]).count == 1)
    let failure = #expect(throws: GzipFile.Failure.self) { try GzipFile.compress(pipe) { false } }
    #expect(failure?.reason == "not a regular file")
  }

  @Test func endOfALongFileIsRead() throws {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "file").path
    let filler = String(repeating: String(repeating: "x", count: 1023) + "\n", count: 17 << 10)
    let (first, second) = (SampleReport(event: "stall.ongoing"), SampleReport(event: "stall.ongoing", sequence: 2))
    try Data((first.text + "\n" + filler + second.text + "\n").utf8).write(to: URL(filePath: file))
    let sequences = WrittenReports.identities(inFiles: [file]).map(\.sequence)
    #expect(sequences == [2])
  }

  /// An archive that another program has begun beside a rotated file says nothing about it.
  @Test func aPlainFileIsReadAndNotTheArchiveBesideIt() throws {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "stalls.jsonl").path
    // The names come in any order.
    for number in 1...8 {
      let rotated = file + ".2026-11-21T10-39-0\(number).000000Z"
      try Data((SampleReport(event: "stall.ongoing", sequence: number).text + "\n").utf8).write(
        to: URL(filePath: rotated))
      try Data().write(to: URL(filePath: rotated + ".gz"))
    }
    #expect(WrittenReports.recall(files: [file]).everywhere.map(\.sequence) == Array(1...8))
  }
}
