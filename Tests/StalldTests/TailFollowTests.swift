import Foundation
import StallReport
import TestSupport
import Testing

@testable import stalld

/// How `stalld tail` follows files, and how it ends.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(5))) struct TailFollowTests {
  typealias Tail = TailTests.Tail

  /// Files of a test, and the reports that were written to them.
  final class Files {
    let scratch: ScratchDirectory
    private(set) var written: [String] = []

    init() throws { scratch = try ScratchDirectory() }

    func path(_ name: String) -> String { scratch.url.appending(path: name).path }

    /// Appends the next reports by one write; creates the file if it is missing.
    func append(_ count: Int = 1, to name: String, flags: Int32 = O_APPEND) throws {
      let lines = (0..<count).map { SampleReport(sequence: written.count + $0 + 1).text }
      let descriptor = open(path(name), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0o644)
      try #require(descriptor >= 0)
      defer { close(descriptor) }
      let bytes = Array(lines.map { $0 + "\n" }.joined().utf8)
      try #require(write(descriptor, bytes, bytes.count) == bytes.count)
      written += lines
    }

    func move(_ name: String, to other: String) throws { try #require(rename(path(name), path(other)) == 0) }

    /// Whether each report is in the output, once.
    func areAll(in output: String) -> Bool {
      output.split(separator: "\n").map { String($0) }.sorted() == written.sorted()
    }

    /// Waits until a tail has shown each report, once.
    func expectAll(in tail: Tail, _ step: String) throws {
      try waitUntil("\(step): \(tail.output.split(separator: "\n").count) of \(written.count); \(tail.errors)") {
        areAll(in: tail.output)
      }
    }
  }

  private static func json(_ files: Files, _ names: String..., lines: Int = 10) throws -> Tail {
    try Tail(["--json", "--lines", "\(lines)"] + names.map(files.path))
  }

  // MARK: Signals

  @Test(
    "signals end it whatever it does: a terabyte to read, a blocked output, nothing to read",
    arguments: [SIGINT, SIGTERM])
  func signals(signal: Int32) throws {
    let files = try Files()
    try files.append(2000, to: "many")
    try files.append(to: "sparse")
    try #require(truncate(files.path("sparse"), 1 << 40) == 0)
    try #require(mkfifo(files.path("fifo"), 0o600) == 0)
    let large = ["--lines", "2000", "--json", files.path("many")]
    for arguments in [[files.path("sparse")], large, [files.path("fifo")], [files.path("missing")], ["-"]] {
      let (input, output) = (Pipe(), Pipe())
      let tail = try Program.start(
        Program.built("stalld", "debug").path, ["tail"] + arguments, input: input, output: output,
        errors: FileHandle.nullDevice)
      defer { kill(tail.processIdentifier, SIGKILL) }
      usleep(300_000)
      kill(tail.processIdentifier, signal)
      try waitUntil("\(arguments) at signal \(signal)") { !tail.isRunning }
      #expect(tail.terminationReason == .exit && tail.terminationStatus == 0, "\(arguments)")
      withExtendedLifetime((input, output)) {}
    }
  }

  @Test func theOtherCommandsThatReadEndBySignals() throws {
    for command in ["report", "symbolicate"] {
      let input = Pipe()
      // The tests themselves may run with the signal ignored.
      let process = try Program.start(
        "/usr/bin/env", ["--default-signal=INT", Program.built("stalld", "debug").path, command, "-"], input: input)
      defer { kill(process.processIdentifier, SIGKILL) }
      usleep(300_000)
      kill(process.processIdentifier, SIGINT)
      try waitUntil("\(command)") { !process.isRunning }
      #expect(process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGINT)
    }
  }

  @Test("a hole in a file takes no time, and hides no line behind it")
  func hole() throws {
    let files = try Files()
    try files.append(3, to: "sparse")
    let descriptor = open(files.path("sparse"), O_WRONLY)
    defer { close(descriptor) }
    lseek(descriptor, 1 << 40, SEEK_SET)
    let last = Array((SampleReport(sequence: 9).text + "\n").utf8)
    #expect(write(descriptor, last, last.count) == last.count)
    for (lines, expected) in [
      (10, files.written + [SampleReport(sequence: 9).text]), (1, [SampleReport(sequence: 9).text]),
    ] {
      let file = try FollowedFile(files.path("sparse"), last: lines)
      var shown: [String] = []
      var pieces = 0
      while case .more = file.readPiece({ shown.append($0.map { String(decoding: $0, as: UTF8.self) } ?? "too long") })
      {
        pieces += 1
      }
      #expect(shown == expected)
      #expect(pieces < 200)
    }
  }

  @Test func linesAreCutOutOfAnyPieces() {
    var splitter = LineSplitter()
    var lines: [String] = []
    let long = String(repeating: "x", count: LineSplitter.longestLine + 1)
    for byte in "a\n\n\u{0}\u{0}b\u{0}c\n\(long)\u{0}\nd\n\u{0}".utf8 {
      splitter.take([byte]) { lines.append($0.map { String(decoding: $0, as: UTF8.self) } ?? "too long") }
    }
    #expect(lines == ["a", "", "b\u{0}c", "too long", "d"])
    #expect(splitter.ignoresZeros && splitter.takeRest() == nil)
    splitter.take(Array("rest".utf8)[...]) { _ in Issue.record("not whole") }
    #expect(!splitter.ignoresZeros && splitter.takeRest() == Array("rest".utf8))
  }

  // MARK: Files by their names

  /// The same operations for both, and the same lines from both; the other tests do what GNU tail misses lines by.
  @Test("it shows what GNU tail -F shows") func sideBySide() throws {
    let files = try Files()
    try FileManager.default.createDirectory(atPath: files.path("d"), withIntermediateDirectories: false)
    try files.append(3, to: "d/a")
    let names = ["d/a", "d/b"].map(files.path)
    let (output, errors) = (files.path("gnu.out"), files.path("gnu.err"))
    for file in [output, errors] { try Data().write(to: URL(filePath: file)) }
    let gnu = try Program.start(
      try #require(Program.installed("tail")), ["-q", "-F", "-s", "0.1"] + names, environment: ["LC_ALL": "C"],
      output: FileHandle(forWritingAtPath: output)!, errors: FileHandle(forWritingAtPath: errors)!)
    defer { kill(gnu.processIdentifier, SIGKILL) }
    let tail = try Tail(["--json"] + names)
    func text(_ file: String) -> String { (try? String(contentsOfFile: file, encoding: .utf8)) ?? "" }
    func expectBoth(_ step: String) throws {
      try files.expectAll(in: tail, step)
      try waitUntil("GNU's, \(step)") { files.areAll(in: text(output)) }
    }
    /// Waits for the messages of both.
    func expectMessages(_ ours: String, _ gnus: String) throws {
      try waitUntil("\(ours): \(tail.errors)") { tail.errors.hasSuffix(ours + "\n") }
      try waitUntil("\(gnus): \(text(errors))") { text(errors).split(separator: "\n").last?.contains(gnus) == true }
    }
    try expectBoth("the last lines")
    try files.append(to: "d/b")
    try expectBoth("a file appears")
    #expect(tail.errors.hasSuffix("stalld tail: \(names[1]) has appeared; following the new file\n"), "\(tail.errors)")
    try files.append(2, to: "d/a")
    try expectBoth("an append")
    try #require(link(names[0], files.path("link")) == 0)
    try files.append(to: "link")
    try expectBoth("an append through another hard link")
    try files.move("d/a", to: "d/a.1")
    try expectMessages("\(names[0]) has become inaccessible: No such file or directory", "become inaccessible")
    try files.append(2, to: "d/a")
    try expectBoth("a rotation")
    try #require(truncate(names[0], 0) == 0)
    try expectMessages("\(names[0]): file truncated; following it from its beginning", "file truncated")
    try files.append(to: "d/a")
    try expectBoth("a truncation")
    try files.append(2, to: "new")
    try files.move("new", to: "d/a")
    try expectBoth("a rename over the file")
    try files.move("d/a", to: "d/a.2")
    try #require(mkdir(names[0], 0o755) == 0)
    try expectMessages("\(names[0]) has become inaccessible: Is a directory", "untailable file")
    try #require(rmdir(names[0]) == 0)
    try files.append(to: "d/a")
    try expectBoth("a directory in its place")
    #expect(tail.stop() == 0)
  }

  @Test("no step of a rotation loses a line or shows one twice") func rotations() throws {
    let files = try Files()
    try files.append(2, to: "a")
    let tail = try Self.json(files, "a", "link", "a.1")
    try files.expectAll(in: tail, "the last lines")
    // Two names of one file, then a followed name for the old file.
    try #require(symlink(files.path("a"), files.path("link")) == 0)
    try files.move("a", to: "a.1")
    try files.append(to: "a.1")
    try files.append(to: "a")
    try files.expectAll(in: tail, "a rename to a name that is followed")
    try files.append(to: "a.1")
    try files.append(to: "link")
    try files.expectAll(in: tail, "a late write to the old file")
    for number in 2...6 {
      try files.append(to: "a")
      try files.move("a", to: "b.\(number)")
      try files.append(to: "b.\(number)")
      try files.append(to: "a")
      try files.expectAll(in: tail, "rotation \(number)")
    }
    try #require(unlink(files.path("a")) == 0)
    try files.append(to: "a")
    try files.expectAll(in: tail, "a file that is deleted and made again")
    try files.move("a", to: "away")
    try waitUntil { tail.errors.contains("\(files.path("a")) has become inaccessible: No such file") }
    try files.move("away", to: "a")
    try files.append(to: "a")
    try files.expectAll(in: tail, "a file that comes back")
    #expect(tail.stop() == 0)
  }

  @Test("a directory that is removed or renamed, and made again") func directories() throws {
    let files = try Files()
    try FileManager.default.createDirectory(atPath: files.path("d"), withIntermediateDirectories: false)
    try files.append(to: "d/a")
    let tail = try Self.json(files, "d/a")
    try files.expectAll(in: tail, "the last lines")
    for round in 1...4 {
      if round % 2 == 0 {
        try files.move("d", to: "d.\(round)")
      } else {
        try FileManager.default.removeItem(atPath: files.path("d"))
      }
      try FileManager.default.createDirectory(atPath: files.path("d"), withIntermediateDirectories: false)
      try files.append(to: "d/a")
      try files.expectAll(in: tail, "directory \(round)")
      try files.append(to: "d/a")
      try files.expectAll(in: tail, "an append in directory \(round)")
      try files.move("d/a", to: "d/a.1")
      try files.append(to: "d/a")
      try files.expectAll(in: tail, "a rotation in directory \(round)")
    }
    #expect(tail.stop() == 0)
  }

  @Test("a truncated file is shown from its beginning, whatever is in it then") func truncations() throws {
    let files = try Files()
    try files.append(3, to: "a")
    let tail = try Self.json(files, "a")
    try files.expectAll(in: tail, "the last lines")
    // More than before, by one write into the truncated file.
    try files.append(6, to: "a", flags: O_TRUNC)
    try files.expectAll(in: tail, "more lines than before")
    // A writer without O_APPEND goes on where it was: there is a hole before its line.
    let line = SampleReport(sequence: files.written.count).text.utf8.count
    try #require(truncate(files.path("a"), 0) == 0 && truncate(files.path("a"), off_t(20 * line)) == 0)
    try files.append(to: "a")
    try files.expectAll(in: tail, "a line behind a hole")
    #expect(tail.stop() == 0)
    #expect(tail.errors.contains("file truncated") && !tail.errors.contains("skipped"), "\(tail.errors)")
  }

  @Test("hundreds of files need one inotify instance") func manyFiles() throws {
    let files = try Files()
    let names = (0..<300).map { "f\($0)" }
    for name in names { try files.append(to: name) }
    let tail = try Tail(["--json"] + names.map(files.path))
    try files.expectAll(in: tail, "the last lines")
    for name in ["f0", "f150", "f299"] { try files.append(to: name) }
    try files.expectAll(in: tail, "appended lines")
    #expect(tail.stop() == 0 && tail.errors == "", "\(tail.errors)")
  }

  /// The limits of a user namespace are its own.
  private static let limited = [
    "--user", "--map-root-user", "sh", "-c", "echo 0 >/proc/sys/user/max_inotify_$0 && exec \"$@\"",
  ]
  private static let canLimitInotify =
    (try? Program.run("/usr/bin/unshare", limited + ["watches", "true"]))?.status == 0

  @Test("without inotify, changes are seen once a second, and it says so", .enabled(if: canLimitInotify))
  func polling() throws {
    for limit in ["instances", "watches"] {
      let files = try Files()
      try files.append(to: "a")
      let errors = files.path("errors")
      try Data().write(to: URL(filePath: errors))
      let output = files.path("output")
      try Data().write(to: URL(filePath: output))
      let tail = try Program.start(
        "/usr/bin/unshare",
        Self.limited + [limit, Program.built("stalld", "debug").path, "tail", "--json", files.path("a")],
        output: FileHandle(forWritingAtPath: output)!, errors: FileHandle(forWritingAtPath: errors)!)
      defer { kill(tail.processIdentifier, SIGKILL) }
      for _ in 0..<2 {
        try waitUntil { try files.areAll(in: String(contentsOfFile: output, encoding: .utf8)) }
        try files.append(to: "a")
        try files.move("a", to: "a.1")
        try files.append(to: "a")
      }
      kill(tail.processIdentifier, SIGINT)
      tail.waitUntilExit()
      let said = try String(contentsOfFile: errors, encoding: .utf8)
      #expect(said.contains("changes are seen once a second, because inotify cannot be used: "), "\(said)")
      #expect(said.contains("raise fs.inotify.max_user_\(limit)"), "\(said)")
    }
  }

  // MARK: Inputs

  @Test("an input that is missing, closed, given twice or compressed") func inputs() throws {
    let scratch = try ScratchDirectory()
    let lines = scratch.url.appending(path: "lines").path
    try Data((SampleReport().text + "\n").utf8).write(to: URL(filePath: lines))
    try #require(Program.run("/bin/sh", ["-c", "gzip --keep \(lines)"]).status == 0)
    let stalld = try Program.built("stalld", "debug").path
    func tail(_ command: String) throws -> Program { try Program.run("/bin/sh", ["-c", command, stalld], limit: 60) }
    let twice = try tail("cat \(lines) | \"$0\" tail --json - - /dev/stdin")
    #expect(twice.status == 0 && twice.output == SampleReport().text + "\n" && twice.errors == "", "\(twice)")
    for (command, error) in [
      ("\"$0\" tail - <&-", "standard input: Bad file descriptor\n"),
      ("\"$0\" tail \(lines) >&-", "standard output: Bad file descriptor\n"),
      ("\"$0\" tail - <\(lines).gz", "standard input: this is a gzip file; type zcat FILE | stalld tail -\n"),
      ("\"$0\" tail \(lines).gz", "\(lines).gz: this is a gzip file; type zcat \(lines).gz | stalld tail -\n"),
      ("\"$0\" tail \(scratch.path)", "\(scratch.path): \(InputAdvice.reason(EISDIR))\n"),
    ] {
      let result = try tail(command)
      #expect(result.status == 1 && result.errors == "stalld tail: \(error)", "\(command): \(result)")
    }
  }
}
