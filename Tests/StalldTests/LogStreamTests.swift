import Foundation
import TestSupport
import Testing

@testable import stalld

/// Log lines for a reader that does not read.
@Suite(.timeLimit(.minutes(1))) struct LogStreamTests {
  private enum Kind: CaseIterable { case pipe, socket }

  private static func ends(_ kind: Kind) throws -> (reader: Int32, writer: Int32) {
    var ends: [Int32] = [-1, -1]
    switch kind {
    case .pipe:
      try #require(pipe(&ends) == 0)
      return (ends[0], ends[1])
    case .socket:
      try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
      return (ends[0], ends[1])
    }
  }

  private static func note(_ count: Int) -> String { "omitted \(count)\n" }

  private static func readLines(_ descriptor: Int32) -> [Substring] {
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65536)
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    while poll(&entry, 1, 200) > 0 {
      let count = read(descriptor, &piece, piece.count)
      guard count > 0 else { break }
      bytes += piece[..<count]
    }
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
  }

  @Test(arguments: Kind.allCases) private func linesThatAreNotAcceptedAreOmittedAndCounted(kind: Kind) throws {
    let (reader, writer) = try Self.ends(kind)
    defer {
      close(reader)
      close(writer)
    }
    let stream = LogStream(writer)
    let line = String(repeating: "x", count: 5000)
    var (written, omitted) = (0, 0)
    for number in 0..<2000 {
      switch stream.write("\(number) \(line)\n", noting: Self.note) {
      case .written: written += 1
      case .omitted: omitted += 1
      case .failed: Issue.record("failed")
      }
    }
    #expect(written > 0 && omitted > 0 && written + omitted == 2000)
    var lines = Self.readLines(reader)
    #expect(stream.write("later\n", noting: Self.note) == .written)
    lines += Self.readLines(reader)
    // The last line may have been accepted in part: its end comes first.
    let text = lines.joined()
    #expect(text.hasSuffix("omitted \(omitted)later"))
    #expect(text.count { $0 == "x" } == written * 5000)
    #expect(stream.write("last\n", noting: Self.note) == .written)
    #expect(Self.readLines(reader) == ["last"])
  }

  @Test(arguments: Kind.allCases) private func streamWithoutAReaderHasFailed(kind: Kind) throws {
    signal(SIGPIPE, SIG_IGN)
    let (reader, writer) = try Self.ends(kind)
    close(reader)
    defer { close(writer) }
    #expect(LogStream(writer).write("x\n", noting: Self.note) == .failed)
  }
}
