import Foundation
import TestSupport
import Testing

@testable import StallReport
@testable import stalld

/// The promises of Documentation/ReportContract.md to readers of reports.
struct ReportContractTests {
  @Test("the schema keeps what the last release promised")
  func schemaIsCompatible() throws {
    #expect(try breaks(released, String(contentsOf: ReportSchema.current, encoding: .utf8)) == "")
  }

  /// Each is a change to the released schema, and the error that it gives; nil if it is allowed.
  @Test(
    "breaking changes of the schema are found; compatible ones are allowed",
    arguments: [
      (#""samples": {"#, #""samplings": {"#, "stall.samples: the key is gone"),
      (#""sequence": {"#, #""sequences": {"#, "stall.sequence: the key is gone"),
      (
        #""threshold_ms": { "type": "number""#, #""threshold_ms": { "type": "integer""#,
        #"stall.threshold_ms: type was "number" and is "integer""#
      ),
      (
        #""major_faults": { "type": "integer""#, #""major_faults": { "type": "number""#,
        #"stall.evidence.major_faults: type was "integer" and is "number""#
      ),
      (
        #""culprit": { "description": "The responsible function: the innermost function of the service's own code, not of a library or a system header. Merged code counts only if there is no other. Without code of the service on the stack: the innermost function that has a name, or else the innermost frame.", "type": "string""#,
        #""culprit": { "type": ["string", "null"]"#, #"stall.culprit: type was "string" and is ["string", "null"]"#
      ),
      (#""required": ["id", "sequence","#, #""required": ["id","#, "stall: sequence is required no more"),
      (
        #""required": ["pid", "executable"]"#, #""required": ["pid", "executable", "user"]"#,
        "process: user became required: older lines lack it"
      ),
      (#""sleep", "starved","#, #""starved","#, #"stall.cause: the word "sleep" is gone"#),
      (
        #""enum": ["info", "warn", "error"]"#, #""enum": ["info", "warn", "error", "fatal"]"#,
        #"log.level: the word "fatal" is new, and this list is closed"#
      ),
      (#"^0x[0-9a-f]+$"#, #"^[0-9]+$"#, "call_tree.nodes.offset[]: pattern was"),
      (#""const": "1.0""#, #""const": "2.0""#, "event.schema: version 1.0 became 2.0"),
      // Allowed: a new word, a newer minor version, other descriptions, a new key that may be left out.
      (#""sleep", "starved","#, #""sleep", "hypervisor", "starved","#, nil),
      (#""const": "1.0""#, #""const": "1.1""#, nil),
      ("One sentence for people.", "A sentence.", nil),
      (#""threads_omitted": {"#, #""threads_seen": { "type": "integer" }, "threads_omitted": {"#, nil),
    ] as [(String, String, String?)])
  func breakingChanges(before: String, after: String, complaint: String?) throws {
    let changed = try #require(
      released.firstRange(of: before).map { released.replacingCharacters(in: $0, with: after) })
    let found = try breaks(released, changed)
    if let complaint {
      #expect(found.contains(complaint), "\(found)")
    } else {
      #expect(found == "")
    }
  }

  /// The lines are those that other tests convert and ship.
  @Test("lines with every key are valid, and cover the whole contract")
  func everyKey() throws {
    let lines = try Judge.reports("every-key")
    #expect(try ReportSchema.faults(in: Data(lines.joined(separator: "\n").utf8)) == "")
    let full = try JSONSerialization.jsonObject(with: Data(#require(lines.first).utf8))
    for path in try leaves().keys { #expect(!values(path[...], of: full).isEmpty, "\(path)") }
  }

  @Test("the agent refuses a line without a member that the schema requires, and no other")
  func requiredMembers() throws {
    let line = try #require(Judge.reports("every-key").last)
    let report = try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
    let schema = try #require(
      JSONSerialization.jsonObject(with: Data(contentsOf: ReportSchema.current)) as? [String: Any])
    /// Every member of the report's objects, and whether the schema requires it.
    func members(_ object: [String: Any], _ schema: [String: Any], _ path: [String]) -> [(
      path: [String], isRequired: Bool
    )] {
      let required = schema["required"] as? [String] ?? []
      let properties = schema["properties"] as? [String: [String: Any]] ?? [:]
      return object.flatMap { key, value -> [(path: [String], isRequired: Bool)] in
        let inner = (value as? [String: Any]).map { members($0, properties[key] ?? [:], path + [key]) } ?? []
        return [(path + [key], required.contains(key))] + inner
      }
    }
    func without(_ path: ArraySlice<String>, _ object: [String: Any]) -> [String: Any] {
      var object = object
      if let key = path.first, path.count > 1, let inner = object[key] as? [String: Any] {
        object[key] = without(path.dropFirst(), inner)
      } else if let key = path.first {
        object[key] = nil
      }
      return object
    }
    func isTaken(_ report: [String: Any]) throws -> Bool {
      let bytes = try Array(JSONSerialization.data(withJSONObject: report))
      return bytes.withUnsafeBufferPointer { buffer in
        guard let parts = try? LineScanner.scan(buffer) else { return false }
        return parts.kind == .report && parts.missing == nil
      }
    }
    try #require(try isTaken(report))
    // The agent writes the pid itself, and passes on objects that may be left out as they are.
    let others = [
      "process.pid", "process.executable.build_id.gnu", "process.user.id", "process.group.id", "systemd.unit",
    ]
    for (path, isRequired) in members(report, schema, []) {
      let name = path.joined(separator: ".")
      let isOptional =
        others.contains(name) || ["stall.suppressed.", "stall.path.", "call_tree."].contains { name.hasPrefix($0) }
      #expect(try isTaken(without(path[...], report)) == (!isRequired || isOptional), "\(name)")
    }
  }

  /// A report with all properties.
  private static func fullReport() -> Report {
    var frame = StackFrame(
      symbol: "a", file: "/a.swift", line: 1, isInlined: true, module: "/bin/a", buildID: "0a", offset: 16)
    frame.isAsync = true
    var evidence = Verdict.Evidence(state: "blocked", wait: "futex(wait)")
    evidence.usage = ResourceUsage(
      observed: 1_000_000, cpu: 1_000_000, runDelay: 1_000_000, throttled: 1_000_000, majorFaults: 1, minorFaults: 1,
      blockDelay: 1_000_000, pressure: PressureTotals(processor: 1_000_000, storage: 1_000_000, memory: 1_000_000),
      waits: 1)
    (evidence.frozenNanoseconds, evidence.stolen, evidence.memoryShortage) = (1_000_000, 1_000_000, 1_000_000)
    evidence.lockHolder = LockHolder(thread: 2, kind: .mutex, label: "a")
    (evidence.lock, evidence.waitedFor) = ("a", .process)
    evidence.deadlock = [1, 2]
    evidence.callouts = CalloutTimes(count: 2, age: 1_000_000, longest: 1_000_000)
    (evidence.samplesDisagree, evidence.watchEnded, evidence.starves) = (true, true, true)
    var other = Report.OtherThread(
      id: 2, name: "b", role: .lockHolder, state: "running", stack: [frame], captureMethod: .perf,
      isApproximate: true, isTruncated: true, captureFailure: .threadEnded)
    other.isChildTask = true
    var report = Report(
      time: Timestamp(seconds: 1, nanoseconds: 0), event: .ended, stallID: "0123456789abcdef0123456789abcdef",
      sequence: 1, thresholdNanoseconds: 1_000_000, durationNanoseconds: 1_000_000,
      verdict: Verdict(cause: .lock, evidence: evidence), culprit: frame, fingerprint: "v2:0123456789abcdef",
      samples: 1,
      loop: .init(name: "main", kind: .loop, mode: "default", phase: .afterWaiting, callout: "timer"),
      threadID: 1, threadName: "a",
      origin: .init(
        processID: 1, executablePath: "/bin/a", executableBuildID: "0a", serviceName: "a", serviceVersion: "1",
        hostName: "h"),
      stack: [frame], captureMethod: .procfs, isApproximate: true, isTruncated: true, isChildTask: true,
      captureFailure: .threadEnded, threads: [other], path: CallTree.Path(frames: [frame], share: 1), detailFile: "/d",
      tally: SuppressedStalls(
        count: 1, total: 1_000_000, longest: 1_000_000, window: 1_000_000, isOverBudget: true), threadsOmitted: 1)
    (report.isAborting, report.droppedLines) = (true, 1)
    report.task = .init(id: 1, name: "a", priority: 0x15, actor: "a.B")
    return report
  }

  @Test("a report with all properties is valid, and has every key except the agent's own")
  func everyPropertyIsWritten() throws {
    let line = Data(Self.fullReport().line())
    try ReportSchema.expectValid(line)
    let written = try JSONSerialization.jsonObject(with: line)
    let missing = try leaves().keys.filter { values($0[...], of: written).isEmpty }
    // From the kernel by the agent; of what was cut; and of a stall whose names are left to the agent (`UnnamedCallTree`).
    let others = [
      "process.reported_pid", "process.user.id", "process.group.id", "process.linux.cgroup", "process.exit_code",
      "process.exit_signal", "process.exit_result", "systemd.unit", "frames_omitted",
    ]
    #expect(Set(missing.filter { !$0.hasPrefix("call_tree.") }) == Set(others))
  }

  /// Otherwise a new property passes the test above unwritten.
  @Test func theReportWithAllPropertiesHasThemAll() throws {
    let report = Self.fullReport()
    let usage = try #require(report.verdict.evidence.usage)
    let values: [Any] = [
      report, report.loop, report.origin, report.verdict, report.verdict.evidence, usage,
      try #require(usage.pressure), try #require(report.verdict.evidence.callouts),
      try #require(report.verdict.evidence.lockHolder), try #require(report.tally), try #require(report.path),
      try #require(report.task), try #require(report.stack.first), try #require(report.threads.first),
    ]
    // What no line has by itself; the default of `isNamed` is true. `watchEnded` says what `isAtLeast` does.
    let others = [
      "Report.isNamed", "Report.isAtLeast", "Report.repeatKey", "Report.places", "LockHolder.hasTimeout",
      "ResourceUsage.throttledByOwnQuota", "CalloutTimes.longestNumber",
      "StackFrame.shortSymbol", "StackFrame.owner", "StackFrame.isCompilerGenerated", "StackFrame.isMerged",
      "StackFrame.isPending", "StackFrame.source", "StackFrame.function",
    ]
    for value in values {
      for (label, property) in Mirror(reflecting: value).children {
        let name = "\(type(of: value)).\(label ?? "")"
        let isDefault = ["nil", "false", "0", "[]", ""].contains("\(property)")
        #expect(!isDefault || others.contains(name), "\(name)")
      }
    }
  }

  /// ``fullReport()`` sets them all itself.
  @Test("the monitor fills each property of the evidence")
  func evidenceIsFilled() throws {
    let code = try String(
      contentsOf: Repository.file("Sources/StallMonitor/Reporter/StallUpdate+Report.swift"), encoding: .utf8)
    // `lock` is a summary's.
    for property in Mirror(reflecting: Verdict.Evidence()).children.compactMap(\.label) where property != "lock" {
      #expect(code.contains("evidence.\(property) = "), "\(property)")
    }
  }

  @Test("each property of the process is set at the start of the monitor")
  func originIsFilled() throws {
    let code = try String(
      contentsOf: Repository.file("Sources/StallMonitor/Loops/WatchStart.swift"), encoding: .utf8)
    let construction = try #require(code.firstMatch(of: #/Report\.Origin\([^=]*/#)).output
    for property in Mirror(reflecting: Self.fullReport().origin).children.compactMap(\.label) {
      #expect(construction.contains("\(property): "), "\(property)")
    }
  }

  /// What a summary says of all its stalls is true of each of them.
  @Test("a summary has exactly these keys, whatever the last stall's report had", arguments: [false, true])
  func keysOfASummary(isOverBudget: Bool) throws {
    let report = Self.fullReport().summary(
      of: SuppressedStalls(count: 2, total: 2, longest: 1, window: 1, isOverBudget: isOverBudget), at: .now())
    let line = Data(report.line())
    try ReportSchema.expectValid(line)
    let written = try JSONSerialization.jsonObject(with: line)
    let keys = try leaves().keys.filter { !values($0[...], of: written).isEmpty }
    let always = [
      "@timestamp", "log.level", "message", "event.name", "event.schema", "stall.id", "stall.sequence",
      "stall.threshold_ms", "stall.duration_ms", "stall.cause", "stall.samples", "stall.suppressed.count",
      "stall.suppressed.total_ms", "stall.suppressed.longest_ms", "stall.suppressed.window_ms", "loop.name",
      "loop.kind", "loop.phase", "process.pid", "process.executable.path", "process.executable.build_id.gnu",
      "service.name", "service.version", "host.name",
    ]
    let ofAlikeStalls = [
      "stall.culprit", "stall.fingerprint", "stall.evidence.wait", "stall.evidence.lock", "stall.evidence.waits_for",
      "stall.evidence.starves", "loop.mode",
      "loop.callout", "thread.id", "thread.name",
    ]
    #expect(Set(keys) == Set(always + (isOverBudget ? ["stall.suppressed.over_budget"] : ofAlikeStalls)))
  }

  /// Each task may have been another, on another thread.
  @Test func aSummaryOfTasksNamesNoTaskAndNoThread() {
    var report = Self.fullReport()
    report.loop.kind = .taskPool
    let summary = report.summary(of: SuppressedStalls(count: 2, total: 2, longest: 1, window: 1), at: .now())
    #expect(summary.task == nil && summary.threadID == nil && summary.threadName == nil)
  }

  @Test("the agent stamps only keys of the contract")
  func stampedLinesAreReports() throws {
    let sent = try Judge.reports("every-key").map(withoutUnit)
    let lines = try sent.map(stamped)
    #expect(
      lines.allSatisfy {
        $0.contains(#""user":{"id":"1998"},"group":{"id":"1997"}"#) && $0.contains(#""unit":"web2.service""#)
      })
    // What it makes of each when the process ends.
    let ends = [
      ExitReason(code: 1, result: "exit-code"), ExitReason(signal: SIGKILL, result: "oom-kill"), ExitReason(),
    ]
    let fatal = try lines.flatMap { line in
      var last = ReportLine.none
      last.bytes = Array(line.utf8) + [UInt8(ascii: "\n")]
      return try ends.map { end in
        let made = try #require(OpenStall(line: last, sequence: 2).fatal(exit: end))
        return String(decoding: made.bytes.dropLast(), as: UTF8.self)
      }
    }
    #expect(try ReportSchema.faults(in: Data((lines + fatal).joined(separator: "\n").utf8)) == "")
    // What is true of one line only is not said again.
    for line in fatal {
      let event = try #require(try WrittenReport(Data(line.utf8)).object["event"] as? [String: Any])
      #expect(Set(event.keys).isSubset(of: ["name", "schema", "action"]), "\(event)")
    }
    #expect(lines.contains { $0.contains(#""dropped":"#) })
  }

  @Test("the agent keeps every field of a service, except those that come from the kernel")
  func fieldsPassTheAgent() throws {
    let full = try #require(Judge.reports("every-key").first)
    let sent = try JSONSerialization.jsonObject(with: Data(withoutUnit(full).utf8))
    let written = try JSONSerialization.jsonObject(with: Data(stamped(withoutUnit(full)).utf8))
    let fields = try leaves().keys
    #expect(fields.filter { values($0[...], of: sent).isEmpty } == ["systemd.unit"])
    let changed = fields.filter { values($0[...], of: sent) != values($0[...], of: written) }
    // A new field of `process` either passes `Stamp`, or comes from there and is in this list.
    let ofTheAgent = [
      "process.pid", "process.reported_pid", "process.user.id", "process.group.id", "process.linux.cgroup",
      "process.exit_code", "process.exit_signal", "process.exit_result", "systemd.unit",
    ]
    #expect(Set(changed) == Set(ofTheAgent))
  }

  @Test("the agent checks every number of a line that has limits")
  func numbersAreChecked() throws {
    let schema = try String(contentsOf: ReportSchema.current, encoding: .utf8)
    let numbers = schema.matches(of: /"(\w+)": \{[^{}]*"type": "(?:integer|number)"/).map { String($0.1) }
      .filter { $0 != "items" }
    let known = Set(LineScanner.counts.map { "\($0)" })
    #expect(Set(numbers.filter { !$0.hasSuffix("_ms") }).subtracting(Self.unchecked) == known)
  }

  /// Keys of numbers of threads, tasks, lines and places, of the order of lines, and of shares.
  private static let unchecked: Set = [
    "id", "pid", "reported_pid", "lock_holder", "blocked_by", "line", "sequence", "exit_code", "share", "parent",
    "frame",
  ]

  /// `LineScanner` checks numbers of the objects that it knows.
  @Test("the agent refuses a negative number anywhere in a line")
  func numbersAreCheckedInEachObject() throws {
    let full = try #require(Judge.reports("every-key").first)
    let line = try JSONSerialization.jsonObject(with: Data(withoutUnit(full).utf8))
    func isTaken(_ line: Any) throws -> Bool {
      try Array(JSONSerialization.data(withJSONObject: line)).withUnsafeBufferPointer {
        (try? LineScanner.scan($0)) != nil
      }
    }
    try #require(try isTaken(line))
    for (path, kind) in try leaves() where kind == "integer" || kind == "number" {
      let key = path.split(separator: ".").last.map { String($0.prefix { $0 != "[" }) } ?? ""
      // Threads and lists are checked by those who read them.
      if Self.unchecked.contains(key) || path.hasPrefix("threads[].") || path.hasSuffix("[]") { continue }
      #expect(try !isTaken(negative(path[...], in: line)), "\(path)")
    }
  }

  /// A value with a negative number at a leaf of the schema, in the first element of each array.
  private func negative(_ path: Substring, in value: Any?) -> Any {
    if path.isEmpty { return -1 }
    if path.hasPrefix("[]") {
      let elements = value as? [Any] ?? []
      return [negative(path.dropFirst(2), in: elements.first)] + elements.dropFirst()
    }
    let path = path.hasPrefix(".") ? path.dropFirst() : path
    let key = path.prefix { $0 != "." && $0 != "[" }
    var object = value as? [String: Any] ?? [:]
    object[String(key)] = negative(path.dropFirst(key.count), in: object[String(key)])
    return object
  }

  @Test("numbers keep their type in OTLP, also where a shipper has written 250.0 as 250")
  func fractionsOfTheSchema() throws {
    for (path, kind) in try leaves() where kind == "integer" || kind == "number" {
      #expect(OTLPAttributes.isFraction(path.replacing("[]", with: "")) == (kind == "number"), "\(path)")
    }
  }

  /// A line as a host sends it: one that says itself which unit it is is refused.
  private func withoutUnit(_ line: String) -> String { line.replacing(#""systemd":{"unit":"web.service"},"#, with: "") }

  /// A line as the agent writes it: of another process than the line says.
  private func stamped(_ line: String) throws -> String {
    let peer = Peer(pid: 4712, uid: 1998, gid: 1997, cgroup: "/system.slice/web2.service")
    let bytes = Array(line.utf8)
    return try bytes.withUnsafeBufferPointer { buffer in
      String(decoding: Stamp(peer).apply(to: buffer, try LineScanner.scan(buffer)).dropLast(), as: UTF8.self)
    }
  }

  /// What a report has at the path of a leaf of the schema, of all elements of arrays.
  private func values(_ path: Substring, of value: Any?) -> [String] {
    if let elements = value as? [Any] { return elements.flatMap { values(path, of: $0) } }
    guard let object = value as? [String: Any] else { return path.isEmpty ? value.map { ["\($0)"] } ?? [] : [] }
    // Some keys have a point.
    if path != "log.level", let point = path.firstIndex(of: ".") {
      let key = path[..<point].replacing("[]", with: "")
      return values(path[path.index(after: point)...], of: object[String(key)])
    }
    return values("", of: object[String(path.replacing("[]", with: ""))])
  }

  @Test("FieldMapping.md lists exactly the fields of the schema")
  func mappingIsComplete() throws {
    let page = try String(contentsOf: Repository.file("Documentation/FieldMapping.md"), encoding: .utf8)
    var rows: [String] = []
    for line in page.split(separator: "\n") where line.hasPrefix("| `") {
      let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      try #require(cells.count == 3, "\(line)")
      #expect(cells.allSatisfy { !$0.isEmpty }, "\(line)")
      // One row may have several fields.
      rows += cells[0].matches(of: /`([^`]+)`/).map { String($0.1) }
    }
    let fields = try leaves().keys
    #expect(Set(rows).symmetricDifference(fields) == [])
    #expect(rows.count == fields.count)
  }

  private let released: String

  init() throws { released = try String(contentsOf: ReportSchema.lastRelease, encoding: .utf8) }

  private func breaks(_ old: String, _ new: String) throws -> String {
    let scratch = try ScratchDirectory()
    let files = try [("old", old), ("new", new)].map { name, text in
      let file = scratch.url.appending(path: "\(name).json")
      try text.write(to: file, atomically: true, encoding: .utf8)
      return file.path
    }
    let judged = try Judge.run("compare-schemas.py", files)
    try #require(judged.errors == "")
    #expect((judged.status == 0) == judged.output.isEmpty)
    return judged.output
  }

  /// The paths of the schema's leaves, and their types.
  private func leaves() throws -> [String: String] {
    let judged = try Judge.run("schema-leaves.py", [ReportSchema.current.path])
    let pairs = judged.output.split(separator: "\n").map { $0.split(separator: " ") }
    return Dictionary(uniqueKeysWithValues: pairs.map { (String($0[0]), String($0[1])) })
  }
}
