import Foundation
import LoopEngine
import StallReport
import TestSupport
import Testing

@testable import stalld

/// `stalld tail` as a program.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3))) struct TailTests {
  /// A running `stalld tail`.
  final class Tail {
    let process: Process
    let input = Pipe()
    private let scratch: ScratchDirectory
    private let outputs: [URL]

    init(_ arguments: [String], in directory: URL? = nil, environment: [String: String] = [:]) throws {
      scratch = try ScratchDirectory()
      outputs = ["out", "err"].map { [scratch] in scratch.url.appending(path: $0) }
      for file in outputs { try Data().write(to: file) }
      process = try Program.start(
        Program.built("stalld", "debug").path, ["tail"] + arguments, environment: environment, in: directory,
        input: input,
        output: FileHandle(forWritingTo: outputs[0]), errors: FileHandle(forWritingTo: outputs[1]))
    }

    deinit {
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }

    var output: String { (try? String(contentsOf: outputs[0], encoding: .utf8)) ?? "" }
    var errors: String { (try? String(contentsOf: outputs[1], encoding: .utf8)) ?? "" }

    /// Asks it to end, and waits for that.
    func stop() -> Int32 {
      kill(process.processIdentifier, SIGINT)
      process.waitUntilExit()
      return process.terminationStatus
    }
  }

  /// What is always ready to be read is read in turns, like a large file.
  @Test func inputWithoutAnEndIsInterrupted() throws {
    let command = "exec '\(try Program.built("stalld", "debug").path)' tail - </dev/zero"
    let tail = try Program.start("/bin/sh", ["-c", command])
    defer { kill(tail.processIdentifier, SIGKILL) }
    usleep(500_000)
    kill(tail.processIdentifier, SIGINT)
    try #require(eventually { !tail.isRunning })
    #expect(tail.terminationReason == .exit && tail.terminationStatus == 0)
  }

  static func append(_ text: String, to file: URL) throws {
    let handle = try FileHandle(forWritingTo: file)
    try handle.seekToEnd()
    try handle.write(contentsOf: Data(text.utf8))
    try handle.close()
  }

  static func filter(_ lines: String, _ arguments: [String]) throws -> Program {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "lines")
    try Data(lines.utf8).write(to: file)
    return try Program.run(
      "/bin/sh", ["-c", "exec \"$@\" <\(file.path)", "sh", Program.built("stalld", "debug").path, "tail"] + arguments)
  }

  @Test func lineHasTimeServiceCauseAndPlace() throws {
    let result = try Self.filter(SampleReport().text + "\n", ["-"])
    #expect(result.status == 0 && result.errors.isEmpty, "\(result.errors)")
    #expect(
      result.output
        == "2026-11-21T06:04:01.913Z  web               ended           619 ms  lock       Pool.take() (Pool.swift:74)\n"
    )
    let stack = try Self.filter(SampleReport().text, ["--stack", "--color", "always", "-"])
    #expect(stack.output.contains("\u{1b}[1m    619 ms\u{1b}[0m"))
    #expect(
      stack.output.contains(
        "\n    \u{1b}[2m___pthread_mutex_lock (pthread_mutex_lock.c:93)\u{1b}[0m\n    \u{1b}[2mPool.take() (Pool.swift:74)\u{1b}[0m\n    \u{1b}[2mweb+0x8c481\u{1b}[0m\n"
      ))
  }

  @Test("a stall without a responsible function has what it waited for")
  func withoutAFunction() throws {
    let line = SampleReport(cause: "starved").text
      .replacing(#""culprit":"web.Pool.take() -> web.Connection","#, with: "")
      .replacing(#""evidence":{}"#, with: #""evidence":{"wait":"no thread has taken it"}"#)
    let result = try Self.filter(line + "\n", ["-"])
    #expect(result.output.contains("  starved    (no function: no thread has taken it)\n"), "\(result.output)")
  }

  @Test("the guide for a local agent shows lines as they are printed")
  func linesOfTheGuide() throws {
    let printer = TailPrinter(usesColor: false, showsStack: false, showsAll: false)
    func line(_ event: String, at time: String, milliseconds: Double) throws -> String {
      let report = SampleReport(
        event: event, service: "first", cause: "sleep", milliseconds: milliseconds,
        culprit: "first.handleRequest() -> ()")
      let text = report.text.replacing("2026-11-21T06:04:01.913864703Z", with: "2026-11-23T12:18:\(time)864703Z")
        .replacing(#""name":"main""#, with: #""name":"task-pool""#)
        .replacing(#"web/Pool.swift","line":74"#, with: #"first/main.swift","line":8"#)
      return printer.text(of: try #require(TailEntry(try JSONText(Array(text.utf8)))))
    }
    let lines =
      try line("stall.started", at: "34.455", milliseconds: 250)
      + line("stall.ended", at: "34.803", milliseconds: 600.7)
    let page = try String(
      contentsOf: Repository.file("Documentation/GettingStarted/LocalAgent.md"), encoding: .utf8)
    #expect(page.contains("```text\n\(lines)```\n"), "\(lines)")
  }

  /// So a column that `stalld tail` gets shows something in the line of the page.
  @Test func theSampleHasWhatIsPrinted() throws {
    let entry = try #require(TailEntry(try JSONText(Array(SampleReport().text.utf8))))
    for (label, value) in Mirror(reflecting: entry).children {
      let name = try #require(label)
      // What only some lines have.
      guard !["wait", "suppressed", "framesOmitted"].contains(name) else { continue }
      #expect(!["nil", "", "[]", "0", "false"].contains("\(value)"), "\(name)")
    }
  }

  @Test func framesOfTheLoopAreOneLineUnlessAllAreAskedFor() throws {
    let loop = ["fireTimers", "pass", "run"].map {
      #"{"symbol":"LoopEngine.Loop.\#($0)(LoopEngine.ModeState) -> ()","module":"/usr/bin/web"}"#
    }
    let line = SampleReport().text.replacing("]}", with: ",\(loop.joined(separator: ","))]}")
    let folded = try Self.filter(line, ["--stack", "-"])
    #expect(folded.output.hasSuffix("\n    web+0x8c481\n    … 3 frames of LoopEngine\n"), "\(folded.output)")
    let all = try Self.filter(line, ["--all-frames", "-"])
    #expect(all.output.contains("  lock       web.Pool.take() -> web.Connection (Pool.swift:74)\n"))
    #expect(
      all.output.contains(
        "\n    web.Pool.take() -> web.Connection (Pool.swift:74)\n    web+0x8c481\n    LoopEngine.Loop.fireTimers(LoopEngine.ModeState) -> () (web)\n"
      ), "\(all.output)")
    #expect(all.output.split(separator: "\n").count == 7)
  }

  @Test func functionThatWaitsIsMarked() throws {
    let line = SampleReport().text.replacing(#""line":74}"#, with: #""line":74,"async":true}"#)
    let result = try Self.filter(line, ["--stack", "-"])
    #expect(
      result.output.contains("\n    async Pool.take() (Pool.swift:74)\n"), "\(result.output)")
  }

  @Test func sampleIsAReport() throws {
    let lines = [SampleReport(), SampleReport(event: "stall.suppressed", suppressed: 3)].map { $0.text + "\n" }
    try SymbolicateTests.validate(lines.joined(), in: ScratchDirectory())
  }

  @Test func filtersByServiceCauseAndDuration() throws {
    let reports = [
      SampleReport(service: "web-1", cause: "lock", milliseconds: 100),
      SampleReport(service: "web-2", cause: "io", milliseconds: 900),
      SampleReport(service: "db", cause: "io", milliseconds: 5000),
      SampleReport(service: "db", cause: "running", milliseconds: 70_000),
    ]
    let lines = reports.map { $0.text + "\n" }
    func shown(_ arguments: String...) throws -> [String] {
      try Self.filter(lines.joined(), arguments + ["--json", "-"]).output.split(separator: "\n").map {
        String($0) + "\n"
      }
    }
    #expect(try shown() == lines)
    #expect(try shown("--service", "web*") == Array(lines[..<2]))
    #expect(try shown("--cause", "io", "--cause", "running") == Array(lines[1...]))
    #expect(try shown("--min", "900ms") == Array(lines[1...]))
    #expect(try shown("--min", "1min", "--service", "db") == [lines[3]])
    #expect(try shown("--min", "900000us") == Array(lines[1...]))
    #expect(try shown("--min", "1d") == [])
    let wrong = try Self.filter("", ["--min", "fast", "-"])
    #expect(wrong.status == 64 && wrong.errors.contains(DurationArgument.allowed))
    #expect(try Self.filter("", ["--cause", "magic", "-"]).errors.contains("  - starved\n"))
  }

  @Test func whatIsNoReportIsSkippedAndCounted() throws {
    let good = SampleReport().text
    let bad = ["{\"half\":", "text", String(repeating: "x", count: 100_000), "{}", "\u{0}\u{1}"].joined(separator: "\n")
    let result = try Self.filter("\(good)\n\(bad)\n\n\(good)", ["-"])
    #expect(result.status == 0)
    #expect(result.output.split(separator: "\n").count == 2)
    #expect(result.errors == "stalld tail: skipped 5 lines that are not reports\n")
  }

  @Test func namesCannotDriveTheTerminal() throws {
    let hostile = SampleReport(service: "a\u{1b}]0;owned\u{7}\u{202e}b", culprit: "f()\n2026 fake line\r\u{9b}31m")
    let result = try Self.filter(hostile.text, ["--stack", "-"])
    #expect(result.output.unicodeScalars.allSatisfy { $0 == "\n" || $0.properties.generalCategory != .control })
    #expect(result.output.contains("a\\u{1b}]0;owned\\u{7}\\u{202e}b"))
    #expect(!result.output.contains("\n2026 fake"))
  }

  @Test func followsAFileAcrossItsRotation() throws {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "stalls.jsonl")
    func report(_ number: Int) -> String { SampleReport(sequence: number).text + "\n" }
    try Data((1...30).map(report).joined().utf8).write(to: file)
    let tail = try Tail(["--json", "--lines", "3", file.path])
    var expected = (28...30).map(report).joined()
    #expect(eventually { tail.output == expected })
    // A line that comes in two parts.
    let whole = report(31)
    try Self.append(String(whole.prefix(50)), to: file)
    usleep(20_000)
    try Self.append(String(whole.dropFirst(50)), to: file)
    expected += whole
    #expect(eventually { tail.output == expected })
    // Renamed, written to once more by a process that has it open, and begun again.
    let writer = try FileHandle(forWritingTo: file)
    try writer.seekToEnd()
    try FileManager.default.moveItem(at: file, to: scratch.url.appending(path: "stalls.jsonl.1"))
    try writer.write(contentsOf: Data(report(32).utf8))
    try Data(report(33).utf8).write(to: file)
    try Self.append(report(34), to: file)
    expected += report(32) + report(33) + report(34)
    #expect(eventually { tail.output == expected }, "\(tail.output.count) of \(expected.count)")
    // Cut to nothing.
    #expect(truncate(file.path, 0) == 0)
    usleep(50_000)
    try Self.append(report(35), to: file)
    expected += report(35)
    #expect(eventually { tail.output == expected })
    #expect(tail.stop() == 0)
    #expect(tail.errors.hasSuffix("\(file.path): file truncated; following it from its beginning\n"), "\(tail.errors)")
  }

  @Test func followsTheRunningAgent() throws {
    let agent = try ControlServerTests.Agent()
    try agent.publish([SampleReport(sequence: 1)])
    let tail = try Tail(["--json", "--control", agent.path])
    #expect(eventually { tail.output == SampleReport(sequence: 1).text + "\n" })
    try agent.publish([SampleReport(sequence: 2)])
    #expect(eventually { tail.output.hasSuffix(SampleReport(sequence: 2).text + "\n") })
    try agent.driver.perform { [server = agent.server] _ in server.stop() }
    tail.process.waitUntilExit()
    #expect(tail.process.terminationStatus == 1)
    #expect(tail.errors == "stalld tail: the agent at \(agent.path) closed the connection\n")
  }

  /// A person is informed that no report has come yet; a program is not.
  @Test func silenceOfTheAgentIsExplainedOnATerminal() throws {
    let agent = try ControlServerTests.Agent()
    let stalld = try Program.built("stalld", "debug").path
    let scratch = try ScratchDirectory()
    let output = scratch.url.appending(path: "out").path
    // A terminal of script(1)'s.
    let command = "timeout --signal=INT --foreground 3 '\(stalld)' tail --control '\(agent.path)' >'\(output)'"
    let seen = try Program.run("/usr/bin/script", ["-qec", command, "/dev/null"], limit: 60)
    #expect(
      seen.output.contains(
        "stalld tail: connected to the agent at \(agent.path); waiting for reports. Ctrl-C ends the command"),
      "\(seen.output)")
    #expect(try String(contentsOfFile: output, encoding: .utf8) == "")
    let tail = try Tail(["--control", agent.path])
    #expect(try eventually { try agent.readers == 1 })
    usleep(600_000)
    #expect(tail.stop() == 0 && tail.errors == "", "\(tail.errors)")
  }

  @Test func endsQuietlyWhenItsReaderExits() throws {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "stalls.jsonl")
    try Data((SampleReport().text + "\n").utf8).write(to: file)
    let stalld = try Program.built("stalld", "debug").path
    // The reader goes while nothing is written any more.
    let result = try Program.run(
      "/bin/bash", ["-c", "'\(stalld)' tail '\(file.path)' | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}"])
    #expect(result.output == "0\n" && result.errors.isEmpty, "\(result.errors)")
    // It goes while more is written than a pipe holds.
    try Data(String(repeating: SampleReport().text + "\n", count: 1000).utf8).write(to: file)
    let full = try Program.run(
      "/bin/bash", ["-c", "'\(stalld)' tail - <'\(file.path)' | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}"])
    #expect(full.output == "0\n" && full.errors.isEmpty, "\(full.errors)")
  }

  @Test func missingFileIsNamed() throws {
    let tail = try Tail(["/nonexistent.jsonl"])
    try waitUntil { tail.errors.hasSuffix("\n") }
    #expect(tail.stop() == 0)
    #expect(
      tail.errors
        == "stalld tail: /nonexistent.jsonl: \(InputAdvice.reason(ENOENT)). Waiting for the file; Ctrl-C ends the command\n"
    )
    let agent = try ControlServerTests.stalld("tail", "--control", "/nonexistent.sock")
    #expect(agent.status == 1 && agent.errors.contains("no such socket"))
  }
}
