import Glibc
import LoopEngine
import TestSupport
import Testing

/// What loops and option sets print.
@Suite struct DescriptionTests {
  /// Adds an item of each kind, and work for a mode of its own.
  private static func fill(_ loop: Loop, _ descriptor: Int32) throws {
    loop.add(Loop.Source(order: 7, name: "inbox") {})
    try loop.watch(descriptor, for: [.readable, .hangUp], name: "socket") { _, _ in }
    loop.perform(after: .seconds(60), in: .tests, name: "retry") { _ in }
    loop.perform(every: .seconds(5), name: "tick") { _ in }
    loop.observe([.beforeWaiting, .exit], order: 3, name: "flusher") { _, _ in }
    loop.perform(in: "posted to") {}
  }

  @Test func aLoopPrintsItsModesAndWhatIsInThem() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let (text, thread) = try onFreshLoop { loop in
      try Self.fill(loop, pipe.reading)
      return ("\(loop)", loop.threadID)
    }
    let lines = text.split(separator: "\n").map(String.init)
    #expect(lines.first == "loop of thread \(thread), not running")
    func line(_ start: String) -> String { lines.first { $0.hasPrefix(start) } ?? "" }
    #expect(line("    source \"inbox\" (LoopEngineTests/DescriptionTests.swift:").hasSuffix("), order 7"))
    #expect(
      line("    DescriptorSource \"socket\"").hasSuffix("descriptor \(pipe.reading) for [.readable, .hangUp]"))
    #expect(line("    timer \"retry\"").contains("due in 59."))
    #expect(line("    timer \"tick\"").hasSuffix("every 5.0 seconds"))
    #expect(line("    observer \"flusher\"").hasSuffix("of [.beforeWaiting, .exit], order 3"))
    #expect(lines.filter { $0.hasPrefix("  mode ") } == ["  mode default, common", "  mode tests", "  mode posted to"])
    #expect(lines.last == "  1 blocks, 0 cancellable, 0 idle")
    // In its mode, and in no other.
    let tests = lines.firstIndex(of: "  mode tests") ?? 0
    #expect(lines.firstIndex(of: line("    timer \"retry\"")) == tests + 1)
  }

  @Test func aLoopIsPrintedByAnyThread() throws {
    let pipe = Pipe()
    defer { pipe.close() }
    let thread = PermanentThread(name: "printed")
    try thread.start()
    let loop = try #require(thread.loop)
    try thread.performAndWait { try Self.fill(loop, pipe.reading) }
    // A busy machine may take longer than the answer may.
    var text = "\(loop)"
    for _ in 0..<100 where !text.contains("\"tick\"") { text = "\(loop)" }
    #expect(text.contains("timer \"tick\"") && text.contains("in mode default"))
    thread.stop()
    #expect("\(loop)" == "loop of thread \(loop.threadID), which has exited, contents unknown")
  }

  /// Its thread is stuck in a callout: what is known without it is printed.
  @Test func aBlockedLoopIsPrintedWithoutItsContents() throws {
    let thread = PermanentThread(name: "blocked")
    try thread.start()
    let loop = try #require(thread.loop)
    let release = Pipe()
    defer { release.close() }
    let isBlocked = Log<Int>()
    loop.perform(in: .tests) {}
    let descriptor = release.reading
    loop.perform(name: "reader") {
      isBlocked.append(1)
      var byte: UInt8 = 0
      _ = read(descriptor, &byte, 1)
    }
    while isBlocked.count == 0 { usleep(1000) }
    let lines = "\(loop)".split(separator: "\n").map(String.init)
    #expect(
      lines.first?.hasPrefix("loop of thread \(loop.threadID), in mode default, calling block \"reader\"") == true)
    #expect(lines.first?.hasSuffix("contents unknown") == true)
    #expect(lines.dropFirst() == ["  mode default", "  mode tests"])
    release.write()
    thread.stop()
  }

  @Test func optionSetsPrintWords() {
    #expect("\(Loop.Activity([.beforeWaiting, .entry]))" == "[.entry, .beforeWaiting]")
    #expect("\(Loop.Activity.all)" == "[.all]")
    #expect("\(Loop.Activity([]))" == "[]")
    #expect("\(Loop.Activity(rawValue: 8 | 128))" == "[.exit, 0x8]")
    #expect("\(Loop.DescriptorSource.Readiness([.readable, .error]))" == "[.readable, .error]")
    #expect("\(Loop.FileChangeSource.Change([.created, .directory]))" == "[.created, .directory]")
  }
}
