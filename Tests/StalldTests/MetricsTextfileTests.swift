import Foundation
import LoopEngine
import Synchronization
import TestSupport
import Testing

@testable import stalld

/// The file for node_exporter.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3))) struct MetricsTextfileTests {
  @Test func isWrittenWhenSomethingHasChangedAndOnlyThen() throws {
    let driver = try AgentDriver()
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "stalld.prom").path
    let file = try Self.textfile(driver, path: path, interval: .milliseconds(200))
    func text() -> String { (try? String(contentsOfFile: path, encoding: .utf8)) ?? "" }
    #expect(eventually { text().hasPrefix("# HELP stalld_build_info") })
    // node_exporter has these of its own, and refuses all of a file that has them, too.
    #expect(!text().contains("process_"))
    // An idle agent wakes for nothing and writes nothing.
    let (turns, number) = (try driver.turnsAtRest(), try Self.inode(path))
    usleep(1_000_000)
    #expect(driver.loop.statistics.turns == turns)
    #expect(try Self.inode(path) == number)

    try driver.record([SampleReport()])
    #expect(eventually { text().contains("severity=\"warn\"} 1\n") })
    // What has changed last is written at the end.
    try driver.perform { driver in
      driver.metrics.record(SampleReport(id: "2").line)
      file.stop(within: .seconds(60))
    }
    #expect(text().contains("severity=\"warn\"} 2\n"))
    #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path) == ["stalld.prom"])
  }

  #if compiler(>=6.3)  // Exit tests that capture values.
  /// In a process of its own, which has the umask as a whole.
  @Test func everybodyMayReadItWithAnyUmask() async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "stalld.prom").path
    await #expect(processExitsWith: .success) { [path = path as String] in
      umask(0o077)
      let driver = try AgentDriver()
      let file = try MetricsTextfileTests.textfile(driver, path: path, interval: .milliseconds(200))
      try driver.perform { _ in file.stop(within: .seconds(60)) }
      var facts = stat()
      exit(stat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o644 ? 0 : 1)
    }
  }
  #endif

  @Test func readerNeverSeesAPartOfIt() throws {
    let driver = try AgentDriver()
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "stalld.prom").path
    try driver.record((0..<1000).map { SampleReport(id: "\($0)", service: "service-\($0)") })
    let file = try Self.textfile(driver, path: path, interval: .milliseconds(1))
    #expect(eventually { FileManager.default.fileExists(atPath: path) })
    var versions: Set<String> = []
    var parts: [Int] = []
    let deadline = ContinuousClock.now + .seconds(120)
    // As fast as it goes, so that a moment without the whole file is met.
    while versions.count < 100, ContinuousClock.now < deadline {
      try driver.perform { $0.metrics.linesIngested() }
      for _ in 0..<10 {
        let text = FileManager.default.contents(atPath: path) ?? Data()
        // The count of lines is near the end.
        versions.insert(String(decoding: text.suffix(4096), as: UTF8.self))
        if !text.suffix(64).ends(with: "\nstalld_reload_failures_total 0\n") { parts.append(text.count) }
      }
    }
    #expect(versions.count >= 100)
    #expect(parts.isEmpty)
    try driver.perform { _ in file.stop(within: .seconds(60)) }
  }

  /// An output that is stuck changes its numbers without a line.
  @Test func isWrittenAgainUntilTheNumbersSettle() throws {
    let driver = try AgentDriver()
    let scratch = try ScratchDirectory()
    let path = scratch.url.appending(path: "stalld.prom").path
    let texts = Atomic(0)
    let isSettled = Atomic(false)
    let file = try driver.perform { driver in
      try MetricsTextfile(
        path: path, interval: .milliseconds(20), loop: driver.loop,
        text: { Array("\(texts.add(1, ordering: .relaxed).newValue)".utf8) },
        isSettled: { isSettled.load(ordering: .relaxed) }, didFail: { _ in })
    }
    #expect(eventually { texts.load(ordering: .relaxed) >= 5 })
    isSettled.store(true, ordering: .relaxed)
    _ = try driver.turnsAtRest()
    let last = texts.load(ordering: .relaxed)
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "\(last)")
    try driver.perform { _ in file.stop(within: .seconds(60)) }
    #expect(texts.load(ordering: .relaxed) == last)
  }

  @Test func fileThatCannotBeWrittenIsTriedAgain() throws {
    let driver = try AgentDriver()
    let scratch = try ScratchDirectory()
    let folder = scratch.url.appending(path: "later")
    let file = try Self.textfile(driver, path: folder.path + "/stalld.prom", interval: .milliseconds(20))
    usleep(100_000)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    #expect(eventually { FileManager.default.fileExists(atPath: folder.path + "/stalld.prom") })
    try driver.perform { _ in file.stop(within: .seconds(60)) }
  }

  @Test func failureIsNamed() throws {
    let driver = try AgentDriver()
    let told = Told()
    let file = try Self.textfile(driver, path: "/nonexistent/stalld.prom", interval: .seconds(1)) { told.add($0) }
    try driver.perform { _ in file.stop(within: .seconds(60)) }
    #expect(told.all == ["/nonexistent/stalld.prom: No such file or directory"])
  }

  @Test func diskThatHangsGetsOneTextAtATimeAndDoesNotHoldTheStop() throws {
    let driver = try AgentDriver()
    let (texts, isOpen) = (Told(), DispatchSemaphore(value: 0))
    let file = try driver.perform { driver in
      try MetricsTextfile(
        path: "/x.prom", interval: .milliseconds(1), loop: driver.loop, text: { Array("text".utf8) },
        replace: { _, path in
          texts.add(path)
          isOpen.wait()
          return nil
        }, didFail: { _ in })
    }
    #expect(eventually { texts.all.count == 1 })
    for _ in 1...50 {
      try driver.perform { _ in file.noteChange() }
      usleep(2000)
    }
    isOpen.signal()
    #expect(eventually { texts.all.count == 2 }, "what has changed meanwhile")
    let begin = ContinuousClock.now
    try driver.perform { _ in
      file.noteChange()
      file.stop(within: .milliseconds(100))
    }
    #expect(ContinuousClock.now - begin < .seconds(30))
    for _ in 1...3 { isOpen.signal() }
    #expect(eventually { texts.all.count == 3 }, "the last one")
    usleep(100_000)
    #expect(texts.all.count == 3)
  }

  private static func textfile(
    _ driver: AgentDriver, path: String, interval: Duration, didFail: @escaping @Sendable (String) -> Void = { _ in }
  ) throws -> MetricsTextfile {
    try driver.perform { driver in
      let file = try MetricsTextfile(
        path: path, interval: interval, loop: driver.loop,
        text: { driver.metrics.text(driver.sample, for: .textfile) }, didFail: didFail)
      driver.metrics.didChange = { [weak file] in file?.noteChange() }
      return file
    }
  }

  private static func inode(_ path: String) throws -> UInt64 {
    var facts = stat()
    try #require(stat(path, &facts) == 0)
    return UInt64(facts.st_ino)
  }
}

/// What was said, on any thread.
private final class Told: @unchecked Sendable {
  // @unchecked: the lock.
  private let lock = NSLock()
  private var lines: [String] = []

  func add(_ line: String) { lock.withLock { lines.append(line) } }
  var all: [String] { lock.withLock { lines } }
}

extension Data {
  fileprivate func ends(with text: String) -> Bool { suffix(text.utf8.count).elementsEqual(text.utf8) }
}
