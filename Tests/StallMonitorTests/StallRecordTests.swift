import Foundation
import TestSupport
import Testing
import VictimC

@testable import StallMonitor

/// The file of a running stall, and those who read it.
struct StallRecordTests {
  /// A directory in memory, for one test.
  private final class RecordDirectory {
    private let scratch: ScratchDirectory
    var path: String { scratch.path }
    let directory: StateDirectory
    let sentinel = ForkSentinel()

    init() throws {
      scratch = try ScratchDirectory.inMemory()
      directory = try StateDirectory(path: scratch.path)
    }

    var files: [String] { (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? [] }

    func record(_ line: [UInt8], turn: UInt64 = 77, name: String = "r-1") throws -> MappedRecord {
      let record = try #require(MappedRecord(sentinel: sentinel))
      try record.begin(in: directory, name: name, turn: turn, line: line, unless: { false })
      return record
    }

    func content(_ name: String = "r-1") throws -> StallRecord.Content {
      try Data(contentsOf: URL(fileURLWithPath: "\(path)/\(name)")).withUnsafeBytes { StallRecord.read($0) }
    }

    /// Sends what is there; the lines that have arrived.
    func told(by earlier: EarlierRecords? = nil) throws -> String {
      let lines = "\(path)/lines"
      let writer = LineWriter(.file(path: lines))
      #expect(writer.open() == nil)
      (earlier ?? EarlierRecords(directory: directory, prefix: "r-")).send(to: writer)
      defer { unlink(lines) }
      return try String(contentsOfFile: lines, encoding: .utf8)
    }
  }

  private static func line(_ text: String, length: Int = 200) -> [UInt8] {
    let head = #"{"@timestamp":"T","event":{"name":"stall.fatal"},"x":"\#(text)"#
    return Array((head + String(repeating: "-", count: max(0, length - head.utf8.count - 3)) + "\"}\n").utf8)
  }

  @Test(arguments: [200, 8000])
  func latestLineIsTheOneThatCounts(length: Int) throws {
    let records = try RecordDirectory()
    let record = try records.record(Self.line("a", length: length))
    #expect(try records.content() == .fatal(Self.line("a", length: length)))
    var previous = Self.line("a", length: length)
    for text in ["b", "c", "d"] {
      let line = Self.line(text, length: length)
      record.update(line)
      #expect(try records.content() == .fatal(line))
      // As if the process had ended before the one store that made the newer line valid.
      var file = try Data(contentsOf: URL(fileURLWithPath: "\(records.path)/r-1"))
      file[StallRecord.validOffset] ^= 1
      #expect(file.withUnsafeBytes { StallRecord.read($0) } == .fatal(previous))
      previous = line
    }
    record.end()
    #expect(records.files.isEmpty)
  }

  /// A slot ends where the next one, or the mapping, does.
  @Test func lineThatIsTooLongIsNotWritten() throws {
    let records = try RecordDirectory()
    let longest = Self.line("a", length: StallRecord.longestLine)
    #expect(throws: StateDirectory.Failure.self) {
      try records.record(longest + [0], name: "r-2")
    }
    #expect(records.files.isEmpty)
    let record = try records.record(Self.line("b"))
    record.update(longest + [0])
    #expect(try records.content() == .fatal(Self.line("b")))
    record.update(Self.line("c"))
    #expect(try records.content() == .fatal(Self.line("c")))
  }

  @Test func stallIsOverOnceTheLoopHasContinued() throws {
    let records = try RecordDirectory()
    let record = try records.record(Self.line("a"), turn: 77)
    record.pass(77)
    #expect(try records.content() == .fatal(Self.line("a")), "the late turn's own beginning")
    record.pass(78)
    #expect(try records.content() == .over)
  }

  /// The loop's thread may be late with its store, and must find memory there.
  @Test func lateStoreDoesNoHarm() throws {
    let records = try RecordDirectory()
    let record = try records.record(Self.line("a"), name: "r-1")
    record.end()
    record.pass(1)
    try record.begin(in: records.directory, name: "r-2", turn: 5, line: Self.line("b"), unless: { false })
    #expect(try records.content("r-2") == .fatal(Self.line("b")))
  }

  @Test func stallThatIsOverMakesNoFile() throws {
    let records = try RecordDirectory()
    let record = try #require(MappedRecord(sentinel: records.sentinel))
    try record.begin(in: records.directory, name: "r-1", turn: 5, line: Self.line("a"), unless: { true })
    #expect(!record.isOpen && records.files.isEmpty)
    record.pass(6)
  }

  @Test func everySingleDamageIsSeen() throws {
    let records = try RecordDirectory()
    let record = try records.record(Self.line("a"))
    record.update(Self.line("b"))
    let whole = try Data(contentsOf: URL(fileURLWithPath: "\(records.path)/r-1"))
    let line = Self.line("b")
    for offset in Array(0..<200) + Array(4096..<4400) + Array(12_288..<12_600) {
      for bit in [0, 5, 7] {
        var damaged = whole
        damaged[offset] ^= 1 << bit
        let content = damaged.withUnsafeBytes { StallRecord.read($0) }
        // What is not read may change; the older line is as true as the newer.
        if case .fatal(let told) = content { #expect(told == line || told == Self.line("a")) }
      }
    }
    for count in [0, 1, 4095, 12_288, whole.count - 1] {
      let content = whole.prefix(count).withUnsafeBytes { StallRecord.read($0) }
      #expect(content == .unusable(reason: "its size is wrong"))
    }
  }

  @Test(arguments: [
    "{\"@timestamp\":\"T\",\"event\":{\"name\":\"stall.fatal\"}\n}\n",
    "{\"@timestamp\":\"T\",\"event\":{\"name\":\"stall.ended\"}}\n",
    "{\"@timestamp\":\"T\",\"event\":{\"name\":\"stall.fatal\"},\"\u{1b}[2J\":1}\n", "\n\n", "no report\n",
    "{\"@timestamp\":\"T\",\"event\":{\"name\":\"stall.fatal\"}} ",
  ])
  func whatIsNoReportIsNotReported(text: String) throws {
    let records = try RecordDirectory()
    _ = try records.record(Array(text.utf8))
    #expect(try records.content() == .unusable(reason: "it contains no report"))
  }

  @Test func invalidTextIsNotReported() throws {
    let records = try RecordDirectory()
    var line = Self.line("a")
    line[line.count - 5] = 0xff
    _ = try records.record(line)
    #expect(try records.content() == .unusable(reason: "it contains no report"))
  }

  // MARK: Whose record it is

  @Test func recordOfALivingProcessIsNotReported() throws {
    let records = try RecordDirectory()
    var record: MappedRecord? = try records.record(Self.line("a"))
    #expect(try records.told().isEmpty)
    #expect(records.files == ["r-1"])
    record = nil
    _ = record
    #expect(try records.told().hasPrefix("{\"@timestamp\""), "its lock went with its memory")
    #expect(records.files.isEmpty)
  }

  /// No handler runs in such a child, and the memory is not there.
  @Test(arguments: [true, false])
  func childOfAForkNeitherFaultsNorEndsTheStall(handlersRun: Bool) throws {
    let records = try RecordDirectory()
    let record = try records.record(Self.line("a"))
    let child = handlersRun ? victim_fork() : victim_raw_fork()
    if child == 0 {
      record.pass(99)
      _exit(records.sentinel.isInOwnProcess ? 1 : 0)
    }
    #expect(victim_wait(child) == 0)
    #expect(try records.content() == .fatal(Self.line("a")))
  }

  @Test func childOfAForkDoesNotKeepTheLock() throws {
    let records = try RecordDirectory()
    var record: MappedRecord? = try records.record(Self.line("a"))
    let child = victim_fork()
    if child == 0 {
      sleep(60)
      _exit(0)
    }
    defer {
      kill(child, SIGKILL)
      _ = victim_wait(child)
    }
    record = nil
    _ = record
    #expect(try !records.told().isEmpty)
  }

  /// Reported twice rather than lost: a record stays until its line is written.
  @Test func recordStaysUntilItsLineIsTaken() throws {
    let records = try RecordDirectory()
    _ = try records.record(Self.line("a"))
    var ends: [Int32] = [0, 0]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let writer = LineWriter(.descriptor(ends[1]))
    #expect(writer.open() == nil)
    // The pipe is full to its last byte, and nothing waits yet.
    for _ in 0..<16 { writer.write(Array(repeating: UInt8(ascii: "x"), count: 4096)) }
    #expect(!writer.wantsFlush)
    let earlier = EarlierRecords(directory: records.directory, prefix: "r-")
    earlier.send(to: writer)
    #expect(writer.wantsFlush)
    #expect(records.files == ["r-1"])
    earlier.send(to: writer)
    #expect(records.files == ["r-1"])
    var sink = [UInt8](repeating: 0, count: 1 << 20)
    #expect(read(ends[0], &sink, sink.count) > 0)
    writer.flush()
    earlier.send(to: writer)
    #expect(records.files.isEmpty)
    let count = read(ends[0], &sink, sink.count)
    #expect(String(decoding: sink.prefix(max(0, count)), as: UTF8.self).hasSuffix("\"}\n"))
  }

  @Test func hostThatClosesAllDescriptorsChangesNothing() throws {
    let records = try RecordDirectory()
    // The directory's descriptor is the only one there is: the record has none.
    let mine = try #require(
      (3..<1024).first {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == records.path
      })
    close(Int32(mine))
    let record = try records.record(Self.line("a"))
    #expect(try records.told().isEmpty)
    record.end()
    #expect(records.files.isEmpty)
  }
}
