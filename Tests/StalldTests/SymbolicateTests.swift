import Foundation
import StallMonitor
import StallReport
import TestSupport
import Testing

@testable import stalld

/// `stalld symbolicate` with the lines of real programs that were stripped, and with lines that nobody should have written.
@Suite(.serialized, .takingTurns) struct SymbolicateTests {
  /// A copy of the victim, stripped, with its names in a separate debug file, and what it reported.
  struct Stripped {
    let scratch: ScratchDirectory
    let debugDirectory: String
    let executable: String
    let buildID: String
    /// The lines of the stripped program.
    let lines: String

    init(_ scenario: String...) throws { try self.init(scenario, environment: ["STALLMONITOR_THRESHOLD": "100ms"]) }

    init(_ arguments: [String], environment: [String: String]) throws {
      scratch = try ScratchDirectory()
      executable = scratch.url.appending(path: "service").path
      debugDirectory = scratch.url.appending(path: "debug").path
      try FileManager.default.copyItem(at: Program.built("StallVictim", "debug"), to: URL(filePath: executable))
      try #require(DebugFiles.obstacle() == nil)
      buildID = try #require(DebugFiles.identify(executable)?.buildID)
      let directory = "\(debugDirectory)/.build-id/\(buildID.prefix(2))"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      let split = "objcopy --only-keep-debug \(executable) \(directory)/\(buildID.dropFirst(2)).debug"
      let stripped = try Program.run("/bin/sh", ["-c", "\(split) && strip --strip-all \(executable)"])
      try #require(stripped.status == 0, "\(stripped.errors)")
      let output = try Program.run(executable, arguments, environment: environment).output
      lines = WrittenReport.lines(in: output).map { $0 + "\n" }.joined()
    }

    func symbolicate(_ arguments: [String] = [], _ lines: String? = nil) throws -> Program {
      try SymbolicateTests.symbolicate(arguments, lines ?? self.lines, in: scratch)
    }
  }

  static func symbolicate(_ arguments: [String], _ lines: String, in scratch: ScratchDirectory) throws -> Program {
    let file = scratch.url.appending(path: "lines-\(UUID().uuidString)").path
    try Data(lines.utf8).write(to: URL(filePath: file))
    return try Program.run(Program.built("stalld", "debug").path, ["symbolicate"] + arguments + [file])
  }

  static func objects(_ text: String) throws -> [[String: Any]] {
    try text.split(separator: "\n").map { line in
      try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    }
  }

  /// Fails unless every line is a report of the published contract, and short enough.
  static func validate(_ text: String, in scratch: ScratchDirectory) throws {
    let file = scratch.url.appending(path: "output-\(UUID().uuidString)").path
    try Data(text.utf8).write(to: URL(filePath: file))
    let root = Repository.root.path
    let judge = try Program.run(
      "/bin/sh",
      [
        "-c",
        "/usr/bin/python3 \(root)/Tests/Support/validate-lines.py \(root)/Config/schema/stall-report.schema.json <\(file)",
      ])
    #expect(judge.status == 0, "\(judge.output)")
    for line in text.split(separator: "\n") { #expect(line.utf8.count + 1 <= 8000) }
  }

  @Test func strippedHostIsCompletedFromItsDebugFile() throws {
    let host = try Stripped("compute", "900")
    let before = try #require(WrittenReport.all(in: host.lines).longestEnd)
    #expect((before["message"] as? String)?.contains("service+0x") == true)
    let result = try host.symbolicate(["--debug-dir", host.debugDirectory])
    #expect(result.status == 0)
    try Self.validate(result.output, in: host.scratch)
    let after = try #require(WrittenReport.all(in: result.output).longestEnd)
    #expect(after.culprit == "StallVictim.blockByComputing() -> ()")
    let message = try #require(after["message"] as? String)
    #expect(message.contains(" in blockByComputing() (\(after.culpritPlace))"))
    let frame = try #require(after.stack.first { $0["symbol"] as? String == "StallVictim.blockByComputing() -> ()" })
    #expect((frame["file"] as? String)?.hasSuffix("StallVictim/main.swift") == true)
    #expect(frame["build_id"] as? String == host.buildID)

    // The same stall of the program as it was built has the same fingerprint.
    let whole = try Program.run(
      Program.built("StallVictim", "debug").path, ["compute", "900"], environment: ["STALLMONITOR_THRESHOLD": "100ms"])
    let told = try #require(WrittenReport.all(in: whole.output).longestEnd)
    #expect(after.fingerprint == told.fingerprint)
    #expect(after.fingerprint != before.fingerprint)

    // What was complete stays as it is, to the byte.
    let again = try host.symbolicate(["--debug-dir", host.debugDirectory], result.output)
    #expect(again.output == result.output)
    // And the file itself does in place of the directory, named or searched for.
    let unstripped = try Program.built("StallVictim", "debug").path
    #expect(try host.symbolicate(["--executable", unstripped]).output == result.output)
    #expect(try host.symbolicate(["--search", host.scratch.url.path]).output == result.output)
  }

  @Test func everythingElseStaysAsItIsWritten() throws {
    let host = try Stripped("compute", "900")
    let result = try host.symbolicate(["--debug-dir", host.debugDirectory])
    for (before, after) in zip(host.lines.split(separator: "\n"), result.output.split(separator: "\n")) {
      // Up to the stack, with what is allowed to change taken out.
      func head(_ line: Substring) -> String {
        String(line.prefix(upTo: line.firstRange(of: "\"stack\":")!.lowerBound))
          .replacing(/,"message":"[^"]*"/, with: "").replacing(/,"culprit":"[^"]*"/, with: "")
          .replacing(/,"fingerprint":"[^"]*"/, with: "").replacing(/,"path":{"share[^}]*}/, with: "")
      }
      #expect(head(before) == head(after))
      #expect(head(after).contains("\"threshold_ms\":100.000"), "numbers keep their digits")
    }
  }

  @Test func replacedExecutableIsNotUsed() throws {
    let host = try Stripped("sleep", "900")
    // Another build at the same path, with all its names.
    try FileManager.default.removeItem(atPath: host.executable)
    try FileManager.default.copyItem(
      at: Program.built("MainThreadVictim", "debug"), to: URL(filePath: host.executable))
    let result = try host.symbolicate(["--executable", host.executable])
    #expect(result.status == 0)
    let stacks = try Self.objects(result.output).compactMap { $0["stack"] as? [[String: Any]] }
    for frame in stacks.joined() where frame["build_id"] as? String == host.buildID {
      #expect(frame["symbol"] == nil)
    }
    #expect(result.errors.contains("no file for build \(host.buildID)"))
    let other = try #require(DebugFiles.identify(host.executable)?.buildID)
    #expect(result.errors.contains("the file there is build \(other)"))
  }

  @Test func fileThatIsCutOffIsNotUsed() throws {
    let host = try Stripped("sleep", "900")
    let whole = "\(host.debugDirectory)/.build-id/\(host.buildID.prefix(2))/\(host.buildID.dropFirst(2)).debug"
    let half = host.scratch.url.appending(path: "half").path
    let cut = try Program.run(
      "/bin/sh", ["-c", "mkdir \(half) && cp \(whole) \(half)/f && truncate --size=-100 \(half)/f"])
    try #require(cut.status == 0)
    let named = try host.symbolicate(["--executable", "\(half)/f"])
    #expect(named.status == 64)
    #expect(named.errors.contains("--executable \(half)/f is cut off"))
    let found = try host.symbolicate(["--search", half])
    #expect(found.status == 0)
    #expect(found.errors.contains("\(half)/f is cut off"))
  }

  @Test func executableThatNamesNothingIsReportedAsSuch() throws {
    let host = try Stripped("sleep", "900")
    let own = try host.symbolicate(["--executable", host.executable])
    #expect(own.errors.contains("--executable \(host.executable) has no symbols and no debug information"))
    let other = try Program.built("MainThreadVictim", "debug").path
    let result = try host.symbolicate(["--executable", other])
    let build = try #require(DebugFiles.identify(other)?.buildID)
    #expect(result.status == 0)
    #expect(result.errors.contains("--executable \(other) is build \(build), which no frame has"))
  }

  /// With the standard library inside, the executable's frames are the runtime's as well as the host's.
  @Test func staticHostNamesItsOwnCode() throws {
    let scratch = try ScratchDirectory()
    let source = scratch.url.appending(path: "app.swift").path
    let file = scratch.url.appending(path: "app").path
    try "@inline(never) func deep(_ n: Int) -> [Int] { [n, 1, 2].sorted() }\nprint(deep(CommandLine.arguments.count))\n"
      .write(toFile: source, atomically: true, encoding: .utf8)
    let built = try Program.run(
      "/bin/sh",
      ["-c", "swiftc -g -static-stdlib -Xlinker --build-id=sha1 -o \(file) \(source) && cp \(file) \(file).whole"])
    try #require(built.status == 0, "\(built.errors)")
    let table = try Program.run("/usr/bin/nm", [file]).output.split(separator: "\n")
    func address(_ name: String) throws -> String {
      let line = try #require(table.first { $0.hasSuffix(" \(name)") })
      return "0x" + String(try #require(UInt64(line.prefix(16), radix: 16)) + 4, radix: 16)
    }
    let stripped = try Program.run("/bin/sh", ["-c", "strip --strip-all \(file)"])
    try #require(stripped.status == 0)
    let id = try #require(DebugFiles.identify(file)?.buildID)
    let offsets = try [address("swift_retain"), address("$s3app4deepySaySiGSiF"), address("main")]
    let frames = offsets.map { #"{"module":"\#(file)","build_id":"\#(id)","offset":"\#($0)"}"# }
    let line = String(
      decoding: ReportCompletionTests.line(frames, culprit: "app+\(offsets[0])"), as: UTF8.self
    ).replacing(#""gnu":"aa""#, with: #""gnu":"\#(id)""#)
    let result = try Self.symbolicate(["--executable", file + ".whole"], line, in: scratch)
    #expect(result.output.contains(#""culprit":"app.deep(Swift.Int) -> Swift.Array<Swift.Int>""#), "\(result.output)")
    #expect(result.output.contains("in deep(_:) (app.swift:1): sleeping"))
    #expect(result.output.contains(#""symbol":"swift_retain""#))
  }

  @Test func hostileLinesPassThrough() throws {
    let scratch = try ScratchDirectory()
    let report =
      #"{"event":{"name":"stall.ended","schema":"1.0"},"stall":{"id":"0"},"message":"m","stack":[FRAME]}"#
    let frames = [
      #"{"module":"/dev/zero","build_id":"00ff","offset":"0x10"}"#,
      #"{"module":"/proc/self/mem","build_id":"zz","offset":"0x10"}"#,
      #"{"module":"a\nb (deleted)","build_id":"abc","offset":"0x1"}"#,
      #"{"module":"\ud800","build_id":"\#(String(repeating: "ab", count: 3000))","offset":"0x1"}"#,
      #"{"build_id":12,"offset":[],"module":{}}"#, #"{"build_id":"00","offset":"0xfffffffffffffffff"}"#, "7", "[]",
      "{}",
    ]
    let lines =
      frames.map { report.replacing("FRAME", with: $0) } + [
        "", "plain text", "{", "[]", "null", #"{"a":1}"#,
        #"{"event":{"name":"stall.ended","schema":"2.0"},"stack":[]}"#,
        String(repeating: "[", count: 5000), #"{"a":"\u12"}"#, #"{"a":01}"#, "\u{0}\u{1}\u{7f}",
        String(repeating: "x", count: 200_000), #"{"event":{"name":"stall.x","schema":"1.0"},"stack":{}}"#,
      ]
    let text = lines.joined(separator: "\n")
    let result = try Self.symbolicate([], text, in: scratch)
    #expect(result.status == 0)
    // NULs before a line, which a truncated file has, are no part of it.
    #expect(result.output == text.replacing("\u{0}\u{1}", with: "\u{1}"))
    #expect(result.errors.contains("line 11: not JSON"))
    #expect(result.errors.contains("line 16: event.schema \"2.0\" is not 1.x"))
    #expect(result.errors.contains("not reports, passed through: 12"), "\(result.errors)")
  }

  @Test func exitCodesDistinguishWrongUseFromUnreadableFiles() throws {
    let stalld = try Program.built("stalld", "debug").path
    #expect(try Program.run(stalld, ["symbolicate", "/nonexistent"]).status == 1)
    #expect(try Program.run(stalld, ["symbolicate", "/"]).status == 1)
    let report = SampleReport().text + "\n", long = String(repeating: "x", count: 70_000) + "\n"
    let cases: [(String, Int32)] = [
      (report + long, 0), (long, 1), ("x\n\n", 1), ("x\n", 1), ("\n", 0), ("", 0),
    ]
    for (lines, status) in cases {
      let result = try Self.symbolicate([], lines, in: try ScratchDirectory())
      #expect(result.status == status, "\(lines.prefix(20)): \(result.errors)")
    }
    let wrong = try Program.run(stalld, ["symbolicate", "--search", "/nonexistent"])
    #expect(wrong.status == 64)
    #expect(wrong.errors.contains("--search /nonexistent is not a directory"))
    #expect(try Program.run(stalld, ["symbolicate", "--executable", "/etc/passwd"]).status == 64)
  }

  /// The beginning of an ELF file for one of the other architectures.
  private static func header(type: UInt8, machine: UInt8) -> Data {
    Data([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1] + [UInt8](repeating: 0, count: 9) + [type, 0, machine, 0])
      + Data(repeating: 0, count: 2000)
  }

  @Test func fileThatCannotBeUsedIsReportedWithItsReason() throws {
    let scratch = try ScratchDirectory()
    #if arch(arm64)
    let (other, name, own): (UInt8, String, UInt8) = (62, "x86_64", 183)
    #else
    let (other, name, own): (UInt8, String, UInt8) = (183, "aarch64", 62)
    #endif
    let files: [(Data, String)] = [
      (
        Self.header(type: 3, machine: other), "is for \(name); run stalld symbolicate on a machine of that architecture"
      ),
      (Self.header(type: 4, machine: other), "is a core dump; give the executable"),
      (Self.header(type: 4, machine: own), "is a core dump; give the executable"),
      (Self.header(type: 3, machine: own), "has no build ID; link it with -Wl,--build-id"),
      (Self.header(type: 3, machine: own).prefix(10), "is not an ELF file"),
      (Self.header(type: 3, machine: own).prefix(63), "is cut off: it ends before its tables do; give the whole file"),
      (Data([0x7f, 0x45, 0x4c, 0x46, 2, 9]) + Self.header(type: 3, machine: own).dropFirst(6), "is not an ELF file"),
      (Data("text".utf8), "is not an ELF file"),
      (Data(), "is not an ELF file"),
    ]
    let stalld = try Program.built("stalld", "debug").path
    for (index, (contents, words)) in files.enumerated() {
      let path = scratch.url.appending(path: "file-\(index)").path
      try contents.write(to: URL(filePath: path))
      let result = try Program.run(stalld, ["symbolicate", "--executable", path])
      #expect(result.status == 64)
      #expect(result.errors.contains("--executable \(path) \(words)"), "\(result.errors)")
    }
  }

  /// A report of another machine, whose files are here: no frame gets a name, and the reason is logged.
  @Test func filesOfAnotherArchitectureAreNotUsed() throws {
    let scratch = try ScratchDirectory()
    #if arch(arm64)
    let (other, name): (UInt8, String) = (62, "x86_64")
    #else
    let (other, name): (UInt8, String) = (183, "aarch64")
    #endif
    let directory = scratch.url.appending(path: "build").path
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    for (file, type) in [("service", UInt8(3)), ("library.so", 3), ("core.1", 4)] {
      try Self.header(type: type, machine: other).write(to: URL(filePath: "\(directory)/\(file)"))
    }
    let line = String(
      decoding: ReportCompletionTests.line([ReportCompletionTests.frame(16)], culprit: "app+0x10"), as: UTF8.self)
    let result = try Self.symbolicate(["--search", directory], line, in: scratch)
    #expect(result.status == 0)
    #expect(result.output == line)
    #expect(result.errors.contains("no file for build aa"))
    #expect(
      result.errors.contains("files for \(name) that were not used: 3; run stalld symbolicate on that architecture"))
  }
}

/// The completion of one line, with names made up by the test.
@Suite struct ReportCompletionTests {
  static func line(_ frames: [String], omitted: Int? = nil, culprit: String? = nil) -> [UInt8] {
    let who = culprit.map { ",\"culprit\":\"\($0)\"" } ?? ""
    let place = culprit.map { " in \($0)" } ?? ""
    let tail = omitted.map { ",\"frames_omitted\":\($0)" } ?? ""
    return Array(
      #"{"message":"main loop blocked for 2 ms\#(place): sleeping","event":{"name":"stall.ended","schema":"1.0"},"stall":{"id":"0","duration_ms":1.50,"cause":"sleep"\#(who)},"loop":{"name":"main","kind":"loop"},"process":{"executable":{"path":"/app","build_id":{"gnu":"aa"}}},"stack":[\#(frames.joined(separator: ","))]\#(tail)}"#
        .utf8)
  }

  static func frame(_ offset: Int) -> String {
    #"{"module":"/app","build_id":"aa","offset":"0x\#(String(offset, radix: 16))","new_key":1.0}"#
  }

  @Test func lineStaysWithinItsLimit() throws {
    let long = String(repeating: "veryLongName", count: 25)
    let completion = ReportCompletion { _, _, offset in [.init(linkageName: "\(long)\(offset)")] }
    for count in [1, 10, 30, 70] {
      let line = Self.line((0..<count).map { Self.frame($0) }, omitted: count == 70 ? 3 : nil)
      guard case .completed(let bytes, let frames) = completion.complete(line) else {
        Issue.record("not completed")
        continue
      }
      #expect(frames == count)
      #expect(bytes.count + 1 <= 8000)
      let object = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
      let stack = try #require(object["stack"] as? [[String: Any]])
      let omitted = object["frames_omitted"] as? Int ?? 0
      #expect(stack.count + omitted == count + (count == 70 ? 3 : 0))
      #expect(stack.first?["symbol"] as? String == "\(long)0")
      #expect(stack.last?["symbol"] as? String == "\(long)\(count - 1)")
    }
  }

  @Test func runtimeFramesAreNotResponsibleOnceTheyHaveNames() throws {
    let completion = ReportCompletion { _, _, offset in
      var name = SymbolizedFrame(linkageName: offset == 1 ? "swift_retain" : "host_work")
      name.isOfLinkedLibrary = offset == 1
      return [name]
    }
    let line = Self.line([Self.frame(1), Self.frame(2)], culprit: "app+0x1")
    guard case .completed(let bytes, _) = completion.complete(line) else { throw CancellationError() }
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(text.contains(#""culprit":"host_work""#))
    #expect(text.contains("for 2 ms in host_work: sleeping"))
    #expect(text.contains(#""duration_ms":1.50"#))
    #expect(text.contains(#""new_key":1.0"#))
  }

  @Test func lineWithoutAFunctionGetsOne() throws {
    let completion = ReportCompletion { _, _, _ in [.init(linkageName: "host_work")] }
    guard case .completed(let bytes, _) = completion.complete(Self.line([Self.frame(1)])) else {
      throw CancellationError()
    }
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(text.contains(#""culprit":"host_work","fingerprint":"v2:"#))
    #expect(text.contains("for 2 ms in host_work: sleeping"))
  }

  /// A message that somebody else has written is nobody's to change.
  @Test func foreignMessageStays() throws {
    let completion = ReportCompletion { _, _, _ in [.init(linkageName: "host_work")] }
    let line = String(decoding: Self.line([Self.frame(1)]), as: UTF8.self)
      .replacing("main loop blocked for 2 ms", with: "orders are late")
    guard case .completed(let bytes, _) = completion.complete(Array(line.utf8)) else { throw CancellationError() }
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(text.contains(#""message":"orders are late: sleeping""#), "\(text)")
    #expect(text.contains(#""culprit":"host_work""#))
  }

  /// The message says what the holder of a lock does, also if `symbolicate` or the agent names its frames.
  @Test func holdersFunctionComesIntoTheMessage() throws {
    var evidence = Verdict.Evidence(state: "blocked", wait: "futex(wait): pthread mutex")
    evidence.lockHolder = LockHolder(thread: 12, kind: .mutex)
    func frame(_ offset: UInt64) -> StackFrame { StackFrame(module: "/app", buildID: "aa", offset: offset) }
    var report = Report(
      time: .now(), event: .ended, stallID: "a", sequence: 1, thresholdNanoseconds: 250_000_000,
      durationNanoseconds: 619_000_000, verdict: Verdict(cause: .lock, evidence: evidence), culprit: frame(1),
      samples: 1, loop: .init(name: "main", kind: .loop, phase: .afterWaiting), threadID: 1,
      origin: .init(
        processID: 1, executablePath: "/app", executableBuildID: "aa", serviceName: "x", hostName: "h"),
      stack: [frame(1)])
    report.threads = [.init(id: 12, role: .lockHolder, state: "ftruncate(fd 5)", stack: [frame(2)])]
    let completion = ReportCompletion { _, _, offset in [.init(linkageName: offset == 1 ? "waiter" : "flush_audit")] }
    guard case .completed(let bytes, 2) = completion.complete(report.line().dropLast()) else {
      throw CancellationError()
    }
    #expect(
      try WrittenReport(String(decoding: bytes, as: UTF8.self))["message"] as? String
        == "main loop blocked for 619 ms in waiter: waiting in futex(wait) for a pthread mutex held by thread 12; thread 12 is in flush_audit, in ftruncate(fd 5)"
    )
  }

  @Test func fingerprintIsNotMadeFromAPartOfTheStack() throws {
    let completion = ReportCompletion { _, _, _ in [.init(linkageName: "host_work")] }
    guard case .completed(let bytes, _) = completion.complete(Self.line([Self.frame(1)], omitted: 4)) else {
      throw CancellationError()
    }
    #expect(!String(decoding: bytes, as: UTF8.self).contains("fingerprint"))
  }

  @Test func lineWithoutAnyFilesIsUnchanged() {
    let completion = ReportCompletion { _, _, _ in nil }
    guard case .unchanged = completion.complete(Self.line([Self.frame(1)])) else {
      Issue.record("changed")
      return
    }
  }

  @Test(arguments: [
    ("{}", true), ("[1,-0.5e+3,true,null]", true), (#"{"a":{"b":["\ud83d\ude00\n"]}}"#, true), ("01", false),
    ("1.", false),
    ("-", false), (#""\x""#, false), ("{\"a\"}", false), ("[1,]", false), ("{} {}", false), ("\"\u{1}\"", false),
    ("", false),
  ])
  func readsWhatIsJSON(text: String, isJSON: Bool) {
    #expect(((try? JSONText(Array(text.utf8))) != nil) == isJSON)
  }

  @Test func readsEscapes() throws {
    let text = try JSONText(Array(#""a\"\\\/\n\ud83d\ude00é\u00e9""#.utf8))
    #expect(text.string(text.root) == "a\"\\/\n😀éé")
  }
}
