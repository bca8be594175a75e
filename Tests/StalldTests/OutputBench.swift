import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import stalld

/// An output writer under test, and what it said.
final class OutputBench: Sendable {
  private struct State {
    var done = 0
    var said: [String] = []
  }

  let writer: OutputWriter
  private let record: Record

  private final class Record: Sendable {
    let state = Mutex(State())
  }

  init(_ settings: [AgentSettings.Output], standardOutput: Int32 = -1) throws {
    let record = Record()
    self.record = record
    writer = try OutputWriter(
      settings: settings, standardOutput: standardOutput,
      say: { priority, text in record.state.withLock { $0.said.append("\(priority): \(text)") } },
      didWrite: { count in record.state.withLock { $0.done += count } })
  }

  convenience init(file: AgentSettings.Output.File) throws { try self.init([.file(file)]) }

  /// Lines that every required output has taken.
  var done: Int { record.state.withLock { $0.done } }
  var said: [String] { record.state.withLock { $0.said } }
  var errors: [String] { said.filter { $0.hasPrefix("error") } }

  func submit(_ numbers: some Sequence<Int>, size: Int = 200) {
    writer.submit(numbers.map { Self.line($0, size: size) })
  }

  func waitUntilDone(_ count: Int) throws { try waitUntil { done >= count } }

  func stop() { writer.stop(within: .seconds(30)) }

  /// A report of so many bytes, its newline included.
  static func line(_ number: Int, size: Int = 200, isError: Bool = false) -> ReportLine {
    let head = #"{"@timestamp":"2026-11-21T06:04:01.913864703Z","number":\#(number),"padding":""#
    // Its number again: two halves of different lines are no whole one.
    let tail = #"","end":\#(number)}"# + "\n"
    let padding = String(repeating: "x", count: max(0, size - head.utf8.count - tail.utf8.count))
    return ReportLine(
      bytes: Array((head + padding + tail).utf8), event: "stall.ended", isError: isError, service: "web",
      cause: "lock", durationMilliseconds: 300, stallID: String(repeating: "a", count: 32), processID: 1)
  }

  /// The numbers of the lines in a text; what is no whole line is an error.
  static func numbers(_ data: Data) throws -> [Int] {
    #expect(data.isEmpty || data.last == UInt8(ascii: "\n"), "no half line at the end")
    return try data.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast().map { line in
      let report = try #require(
        try? JSONSerialization.jsonObject(with: Data(line)) as? [String: Any],
        "\(String(decoding: line.prefix(100), as: UTF8.self)) … is a whole line")
      let number = try #require(report["number"] as? Int)
      #expect(report["end"] as? Int ?? number == number)
      return number
    }
  }

  static func numbers(in path: String) throws -> [Int] {
    try numbers(Data(contentsOf: URL(fileURLWithPath: path)))
  }

  /// What `gzip -dc` makes of a file.
  static func numbers(compressed path: String) throws -> [Int] {
    let gzip = try #require(Program.installed("gzip"))
    let program = try Program.run(gzip, ["-dc", path])
    #expect(program.status == 0, "\(program.errors)")
    return try numbers(Data(program.output.utf8))
  }

  /// The numbers in all files of an output, rotated ones first.
  static func allNumbers(besides path: String) throws -> [Int] {
    let rotated = RotatedFile.all(besides: path).sorted { $0.name < $1.name }
    return try rotated.flatMap {
      $0.form == .compressed ? try numbers(compressed: $0.path) : try numbers(in: $0.path)
    } + numbers(in: path)
  }
}

/// Two ends that belong together, the reader's first, which no program has that another test starts.
///
/// But for a moment, of the pipe's: pipe2(2) cannot be seen from Swift.
enum DescriptorPair {
  static func pipe() -> [Int32] {
    var ends: [Int32] = [-1, -1]
    Glibc.pipe(&ends)
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return ends
  }

  static func sockets() -> [Int32] {
    var ends: [Int32] = [-1, -1]
    socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends)
    return ends
  }
}

/// A file system of its own size, gone with its last reference.
final class SmallDisk {
  let path: String
  private let scratch: ScratchDirectory

  init(size: String) throws {
    scratch = try ScratchDirectory()
    path = scratch.url.path
    try #require(mount("tmpfs", path, "tmpfs", 0, "size=\(size)") == 0, "\(String(cString: strerror(errno)))")
  }

  deinit { umount2(path, Int32(MNT_DETACH)) }

  /// A file that uses up space: all of it, or as much as requested.
  func fill(_ name: String = "filler", leaving room: Int = 0) throws {
    try Data().write(to: URL(fileURLWithPath: "\(path)/\(name)"))
    let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: "\(path)/\(name)"))
    let block = Data(count: 4096)
    while (try? handle.write(contentsOf: block)) != nil {}
    if room > 0 { try handle.truncate(atOffset: handle.seekToEnd() - UInt64(room)) }
    try handle.close()
  }

  func makeSpace(_ name: String = "filler") throws { try FileManager.default.removeItem(atPath: "\(path)/\(name)") }
}
