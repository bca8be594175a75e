import Foundation
import Glibc
import Testing

@testable import DescriptorIO

/// Each rule of writing lines to a descriptor, on pipes, sockets and files.
@Suite final class LineDescriptorTests {
  private let directory: String

  init() throws {
    // What the threads that write have blocked, too.
    signal(SIGPIPE, SIG_IGN)
    var template = Array("/tmp/stalld-lines-XXXXXX".utf8CString)
    directory = String(cString: try #require(mkdtemp(&template)))
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  private static func line(_ number: Int, size: Int) -> [UInt8] {
    let head = "\(number) "
    return Array((head + String(repeating: "x", count: size - head.utf8.count - 1) + "\n").utf8)
  }

  private static func pipe() -> (reader: Int32, writer: Int32) {
    var ends: [Int32] = [0, 0]
    precondition(Glibc.pipe(&ends) == 0)
    return (ends[0], ends[1])
  }

  private static func sockets() -> (reader: Int32, writer: Int32) {
    var ends: [Int32] = [0, 0]
    precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    return (ends[0], ends[1])
  }

  private static func readAll(_ descriptor: Int32) -> [UInt8] {
    var all: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    while poll(&entry, 1, 0) == 1 {
      let count = read(descriptor, &buffer, buffer.count)
      if count <= 0 { break }
      all += buffer[..<count]
    }
    return all
  }

  private func open(_ name: String) throws -> LineDescriptor {
    try #require(
      LineDescriptor(
        owning: Glibc.open("\(directory)/\(name)", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0o600)))
  }

  // MARK: Streams

  /// A full pipe or socket takes a line in part; the rest follows, and the flags that others share stay.
  @Test(arguments: [false, true])
  func partlyWrittenLineIsCompleted(isSocket: Bool) throws {
    let ends = isSocket ? Self.sockets() : Self.pipe()
    defer { close(ends.reader); close(ends.writer) }
    let output = try #require(LineDescriptor(sharing: ends.writer, isExclusive: true))
    let line = Self.line(1, size: 3 << 20)
    #expect(output.write(line) == .full)
    #expect(output.isMidLine)
    #expect(output.pollable == output.number)
    #expect(fcntl(ends.writer, F_GETFL) & O_NONBLOCK == 0)
    var received: [UInt8] = []
    var outcome = LineDescriptor.Outcome.full
    while outcome == .full {
      received += Self.readAll(ends.reader)
      outcome = output.write(line)
    }
    received += Self.readAll(ends.reader)
    #expect(outcome == .written && !output.isMidLine)
    #expect(received == line)
    #expect(output.bytesWritten == line.count)
  }

  @Test(arguments: [false, true])
  func readerThatHasLeftIsAnError(isSocket: Bool) throws {
    let ends = isSocket ? Self.sockets() : Self.pipe()
    defer { close(ends.writer) }
    let output = try #require(LineDescriptor(sharing: ends.writer, isExclusive: true))
    close(ends.reader)
    #expect(output.write(Self.line(1, size: 100)) == .failed(EPIPE))
    #expect(LineDescriptor.isEndOfReader(EPIPE))
    #expect(!LineDescriptor.isEndOfReader(ENOSPC))
  }

  @Test func abandonedLineIsNotContinued() throws {
    let ends = Self.sockets()
    defer { close(ends.reader); close(ends.writer) }
    let output = try #require(LineDescriptor(sharing: ends.writer, isExclusive: true))
    #expect(output.write(Self.line(1, size: 3 << 20)) == .full)
    output.abandonLine()
    _ = Self.readAll(ends.reader)
    #expect(output.write(Self.line(2, size: 100)) == .written)
    #expect(Self.readAll(ends.reader) == Self.line(2, size: 100))
  }

  @Test func closedDescriptorCannotBeUsed() {
    #expect(LineDescriptor(sharing: 999_999, isExclusive: false) == nil)
    #expect(LineDescriptor(owning: -1) == nil)
  }

  /// A service that closes all descriptors closes our copy, and perhaps not its own.
  @Test func closedCopyIsReplaced() throws {
    let ends = Self.pipe()
    defer { close(ends.reader); close(ends.writer) }
    let output = try #require(LineDescriptor(sharing: ends.writer, isExclusive: false))
    close(output.number)
    #expect(!output.isIntact && output.pollable == -1)
    #expect(output.restore() && output.isIntact)
    #expect(output.write(Self.line(1, size: 100)) == .written)
    #expect(Self.readAll(ends.reader) == Self.line(1, size: 100))
  }

  // MARK: Files

  @Test(.enabled(if: geteuid() == 0, "mounting a small file system needs root"))
  func fullDiskLeavesWholeLines() throws {
    try #require(mount("tmpfs", directory, "tmpfs", 0, "size=64k") == 0)
    defer { umount2(directory, Int32(MNT_DETACH)) }
    let output = try open("a")
    #expect(output.pollable == -1)
    var count = 0
    while output.write(Self.line(count, size: 3000)) == .written { count += 1 }
    #expect(output.write(Self.line(count, size: 3000)) == .failed(ENOSPC))
    #expect(!output.isMidLine)
    let whole = try Data(contentsOf: URL(fileURLWithPath: "\(directory)/a"))
    #expect(whole.count == count * 3000)
    // Several lines at once: those that fit stay.
    truncate("\(directory)/a", off_t((count - 5) * 3000))
    let batch = (0..<10).flatMap { Self.line($0, size: 3000) }
    let (bytes, outcome) = batch.withUnsafeBytes { output.take($0) }
    #expect(bytes % 3000 == 0 && bytes > 0)
    #expect(outcome == .failed(ENOSPC))
    #expect(try Data(contentsOf: URL(fileURLWithPath: "\(directory)/a")).count == (count - 5) * 3000 + bytes)
  }

  /// Bytes that another writer has appended are never removed, and a service's own file is never
  /// shortened.
  @Test(.enabled(if: geteuid() == 0, "mounting a small file system needs root"))
  func othersLinesStay() throws {
    try #require(mount("tmpfs", directory, "tmpfs", 0, "size=64k") == 0)
    defer { umount2(directory, Int32(MNT_DETACH)) }
    let shared = Glibc.open("\(directory)/b", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(shared) }
    let output = try #require(LineDescriptor(sharing: shared, isExclusive: false))
    let line = Self.line(1, size: 100_000)
    #expect(output.write(line) == .failed(ENOSPC))
    #expect(output.isMidLine)
    let torn = try Data(contentsOf: URL(fileURLWithPath: "\(directory)/b"))
    #expect(torn.count == 64 << 10)
    try #require(mount("tmpfs", directory, "tmpfs", UInt(MS_REMOUNT), "size=256k") == 0)
    #expect(output.write(line) == .written)
    #expect(try Data(contentsOf: URL(fileURLWithPath: "\(directory)/b")) == Data(line))

    let other = Glibc.open("\(directory)/b", O_WRONLY | O_APPEND | O_CLOEXEC)
    defer { close(other) }
    #expect(LineDescriptor.removeLast(10, from: shared))
    #expect(Glibc.write(other, "z\n", 2) == 2)
    #expect(!LineDescriptor.removeLast(10, from: shared))
  }

  /// Without `O_APPEND`, as a shell opens it, the next line begins where the torn one was cut off.
  @Test(.enabled(if: geteuid() == 0, "mounting a small file system needs root"))
  func cutLineLeavesNoHole() throws {
    try #require(mount("tmpfs", directory, "tmpfs", 0, "size=16k") == 0)
    defer { umount2(directory, Int32(MNT_DETACH)) }
    let standardOutput = Glibc.open("\(directory)/c", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(standardOutput) }
    let output = try #require(LineDescriptor(sharing: standardOutput, isExclusive: true))
    #expect(output.write(Self.line(1, size: 10_000)) == .written)
    #expect(output.write(Self.line(2, size: 10_000)) == .failed(ENOSPC))
    #expect(!output.isMidLine)
    try #require(mount("tmpfs", directory, "tmpfs", UInt(MS_REMOUNT), "size=64k") == 0)
    #expect(output.write(Self.line(2, size: 10_000)) == .written)
    let expected = Self.line(1, size: 10_000) + Self.line(2, size: 10_000)
    #expect(try Data(contentsOf: URL(fileURLWithPath: "\(directory)/c")) == Data(expected))
  }

  @Test func renamedFileIsNoticed() throws {
    let output = try open("d")
    #expect(output.isFile(at: "\(directory)/d"))
    #expect(rename("\(directory)/d", "\(directory)/e") == 0)
    #expect(!output.isFile(at: "\(directory)/d"))
    #expect(output.isFile(at: "\(directory)/e"))
  }
}
