import Foundation
import Glibc
import TestSupport
import Testing

@testable import StallMonitor

final class LineWriterTests {
  private let scratch: ScratchDirectory
  private var directory: URL { scratch.url }

  init() throws { scratch = try ScratchDirectory() }

  private func line(_ number: Int, size: Int = 100) -> [UInt8] {
    let head = "\(number) "
    return Array((head + String(repeating: "x", count: size - head.utf8.count - 1) + "\n").utf8)
  }

  @Test func renamedFileIsReleased() throws {
    let path = directory.appending(path: "a.jsonl").path
    let writer = LineWriter(.file(path: path))
    #expect(writer.open() == nil)
    writer.write(line(1))
    try FileManager.default.moveItem(atPath: path, toPath: path + ".1")
    writer.write(line(2))
    try FileManager.default.removeItem(atPath: path)
    writer.write(line(3))
    #expect(try Data(contentsOf: URL(fileURLWithPath: path + ".1")) == Data(line(1)))
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == Data(line(3)))
  }

  /// A reader that does not read: no thread waits, only whole lines are kept and dropped, and the
  /// drops are counted.
  @Test func fullPipeIsNeverWaitedFor() throws {
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    let writer = LineWriter(.descriptor(ends[1]))
    #expect(writer.open() == nil)
    let count = 1000
    for number in 0..<count { writer.write(line(number, size: 1000)) }
    #expect(writer.wantsFlush)
    let dropped = writer.takeDropped()
    #expect(dropped > 0)
    #expect(fcntl(ends[1], F_GETFL) & O_NONBLOCK == 0, "the host's own descriptor waits as before")

    var received: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65536)
    var idle = 0
    while idle < 2 {
      writer.flush()
      var entry = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
      guard poll(&entry, 1, 0) == 1 else {
        idle += 1
        continue
      }
      received += buffer[..<read(ends[0], &buffer, buffer.count)]
    }
    let lines = received.split(separator: UInt8(ascii: "\n"))
    #expect(lines.count + Int(dropped) == count)
    #expect(lines.allSatisfy { $0.count == 999 })
    let numbers = lines.map { Int(String(decoding: $0.prefix { $0 != 32 }, as: UTF8.self)) ?? -1 }
    #expect(numbers == numbers.sorted())
    #expect(numbers.last == count - 1)
    close(ends[0])
    close(ends[1])
  }

  @Test func readerThatHasLeftIsNotWaitedFor() {
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    signal(SIGPIPE, SIG_IGN)
    let writer = LineWriter(.descriptor(ends[1]))
    #expect(writer.open() == nil)
    close(ends[0])
    writer.write(line(1))
    #expect(!writer.wantsFlush)
    #expect(writer.takeDropped() == 1)
    close(ends[1])
  }

  /// The disk is full: no half line stays, and the line is written when there is space again.
  @Test func fullDiskLeavesNoHalfLine() throws {
    let mount = directory.path
    try #require(geteuid() == 0, "mounting a small file system needs root")
    #expect(Glibc.mount("tmpfs", mount, "tmpfs", 0, "size=64k") == 0)
    defer { umount(mount) }
    let path = mount + "/a.jsonl"
    let writer = LineWriter(.file(path: path))
    #expect(writer.open() == nil)
    for number in 0..<30 { writer.write(line(number, size: 3000)) }
    #expect(writer.wantsFlush)
    let full = try Data(contentsOf: URL(fileURLWithPath: path))
    #expect(full.last == UInt8(ascii: "\n"))
    // An operator frees space.
    try FileManager.default.moveItem(atPath: path, toPath: path + ".1")
    try Data().write(to: URL(fileURLWithPath: path + ".1"))
    writer.flush()
    #expect(!writer.wantsFlush)
    let rest = try Data(contentsOf: URL(fileURLWithPath: path))
    #expect((full + rest).split(separator: UInt8(ascii: "\n")).count == 30)
  }
}
