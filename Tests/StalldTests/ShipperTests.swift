import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor

/// Lines as long as they get, from our writer through a real shipper into a file, while the file is rotated.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
struct ShipperTests {
  /// Who renames the file.
  enum Rotation: CaseIterable, CustomTestStringConvertible {
    case rename, logrotate

    var testDescription: String { "\(self)" }
  }

  /// Without its program, the test below is cancelled.
  @Test("`make test` installs or unpacks the program of each shipper", arguments: Shipper.Kind.allCases)
  func programIsInstalled(kind: Shipper.Kind) throws {
    let makefile = try String(contentsOf: Repository.file("Makefile"), encoding: .utf8)
    let judges = try #require(makefile.split(separator: "\n").first { $0.hasPrefix("JUDGES := ") })
    let script = Repository.file("Tests/Support/unpack-\(kind.rawValue)").path
    #expect(
      judges.split(separator: " ").contains(Substring(kind.rawValue))
        || FileManager.default.isExecutableFile(atPath: script))
  }

  #if compiler(>=6.3)  // Test.cancel.
  @Test("each line arrives unchanged and once", arguments: Shipper.Kind.allCases, Rotation.allCases)
  func everyLineArrives(kind: Shipper.Kind, rotation: Rotation) throws {
    guard kind.program != nil else { try Test.cancel("\(kind.rawValue) is missing; `make test` brings it") }
    guard rotation == .rename || Program.installed("logrotate") != nil else {
      try Test.cancel("logrotate is missing (Debian: logrotate)")
    }
    let scratch = try ScratchDirectory()
    let shipper = try Shipper(kind, in: scratch.url)
    defer { shipper.stop() }
    let lines = try Judge.reports("longest", "500", "\(rotation)".count.description).map { Data($0.utf8) }
    #expect(lines.allSatisfy { $0.count == 7999 }, "the longest that there are")

    let writer = WriterThread(path: shipper.source.path, lines: lines)
    defer { writer.finish() }
    var begun = 0
    for round in 1...3 {
      writer.goOn(to: round * 150)
      // A file that is rotated before a shipper has opened it is lost: some lines of this one have
      // arrived.
      try waitUntil { shipper.passedOn >= (begun + 5) * 8000 && writer.written >= begun + 50 }
      writer.goOn(to: round * 150 + 100)
      switch rotation {
      case .rename:
        try FileManager.default.moveItem(
          atPath: shipper.source.path, toPath: "\(shipper.source.path).2026-03-0\(round)T00:00:00Z")
      case .logrotate: try rotate(shipper.source, in: scratch.url)
      }
      begun = writer.written
    }
    writer.goOn(to: lines.count)
    writer.finish()
    try waitUntil { shipper.passedOn >= lines.count * 8000 }
    // What would come twice comes now.
    usleep(300_000)
    let arrived = shipper.lines()
    #expect(arrived.count == lines.count)
    #expect(Set(arrived) == Set(lines), "byte by byte, so every number is still one")
    let left = try FileManager.default.contentsOfDirectory(atPath: shipper.source.deletingLastPathComponent().path)
    #expect(left.filter { $0.hasSuffix(".jsonl") } == ["stalls.jsonl"], "no rotated file is taken for a new one")
    #expect(left.count == 4, "each rotation was one")
  }
  #endif

  /// What the shippers that are not run here rely on, too.
  @Test("each file of our writer starts with a different line and ends with a complete one")
  func filesAreWhole() throws {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "stalls.jsonl")
    let lines = try Judge.reports("longest", "60").map { Data($0.utf8) }
    let writer = LineWriter(.file(path: file.path))
    #expect(writer.open() == nil)
    for (number, line) in lines.enumerated() {
      writer.write(Array(line) + [UInt8(ascii: "\n")])
      if number % 10 == 9 {
        try FileManager.default.moveItem(atPath: file.path, toPath: "\(file.path).\(number)")
      }
    }
    let names = try FileManager.default.contentsOfDirectory(atPath: scratch.url.path)
    #expect(names.count == 6)
    var all: [Data] = []
    var beginnings: Set<Data> = []
    for name in names {
      let data = try Data(contentsOf: scratch.url.appending(path: name))
      #expect(data.last == UInt8(ascii: "\n"))
      #expect(data.starts(with: Data(#"{"@timestamp":""#.utf8)), "no header")
      // Filebeat and the OpenTelemetry Collector know a file by its first 1000 bytes or so, Vector by its first line.
      beginnings.insert(data.prefix(100))
      all += data.split(separator: UInt8(ascii: "\n")).map { Data($0) }
    }
    #expect(beginnings.count == names.count, "no two files are taken for the same")
    #expect(Set(all) == Set(lines) && all.count == lines.count)
    #expect(StallReport.Report.longestLine == 8000, "the limit of which the configurations speak")
  }

  private func rotate(_ file: URL, in scratch: URL) throws {
    let logrotate = try #require(Program.installed("logrotate"))
    let text = try String(contentsOf: Repository.file("Config/logrotate/stallmonitor"), encoding: .utf8)
    let configuration = scratch.appending(path: "logrotate.conf")
    try text.replacing("/var/log/NAME/stalls.jsonl", with: file.path)
      .write(to: configuration, atomically: true, encoding: .utf8)
    let rotated = try Program.run(
      logrotate, ["--force", "--state", scratch.appending(path: "logrotate.state").path, configuration.path])
    try #require(rotated.status == 0 && rotated.errors.isEmpty, "\(rotated.errors)")
  }
}

/// Writes lines at a steady pace on a thread of its own, as a watchdog does, and waits on request.
private final class WriterThread: @unchecked Sendable {
  // Unchecked: the lock guards what changes.
  private let lock = NSLock()
  private var count = 0
  private var limit = 0
  private let done = DispatchSemaphore(value: 0)

  init(path: String, lines: [Data]) {
    Thread.detachNewThread { [self] in
      let writer = LineWriter(.file(path: path))
      _ = writer.open()
      while written < lines.count {
        usleep(2500)
        guard written < lock.withLock({ limit }) else { continue }
        if lock.withLock({ limit == .max }) { break }
        writer.write(Array(lines[written]) + [UInt8(ascii: "\n")])
        lock.withLock { count += 1 }
      }
      done.signal()
    }
  }

  /// Lines that are written.
  var written: Int { lock.withLock { count } }

  /// Lets it write until there are so many.
  func goOn(to count: Int) { lock.withLock { limit = count } }

  /// Waits until it has written all that it may, and lets it go.
  func finish() {
    let last = lock.withLock { limit }
    if last == .max { return }
    while written < last { usleep(1000) }
    lock.withLock { limit = .max }
    done.wait()
    done.signal()
  }
}
