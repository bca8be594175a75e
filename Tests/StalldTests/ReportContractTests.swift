import Foundation
import TestSupport
import Testing

@testable import stalld

/// What Documentation/ReportContract.md promises to whoever reads reports.
struct ReportContractTests {
  @Test("the schema keeps what the last release promised")
  func schemaIsCompatible() throws {
    #expect(try breaks(released, String(contentsOf: ReportSchema.current, encoding: .utf8)) == "")
  }

  /// Each is a change to the released schema, and what is said of it; nil if it is allowed.
  @Test(
    "changes that break readers are found, and others are let through",
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
        #""culprit": { "description": "The innermost function of the host's own code.", "type": "string""#,
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
      (#"^0x[0-9a-f]+$"#, #"^[0-9]+$"#, "stack[].offset: pattern was"),
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
    let full = try #require(lines.first)
    for path in try leaves().keys {
      let key = String(path.split(separator: ".").last ?? "").replacing("[]", with: "")
      #expect(full.contains("\"\(key)\":") || full.contains("\"\(path)\":"), "\(path)")
    }
  }

  @Test("what the agent stamps into a line is of the contract")
  func stampedLinesAreReports() throws {
    let peer = Peer(pid: 4711, uid: 998, gid: 997, cgroup: "/system.slice/web.service")
    // A host that says itself who it is would be refused.
    let lines = try Judge.reports("every-key").suffix(1).map { line in
      let bytes = Array(line.utf8)
      return try bytes.withUnsafeBufferPointer { buffer in
        String(decoding: Stamp(peer).apply(to: buffer, try LineScanner.scan(buffer)).dropLast(), as: UTF8.self)
      }
    }
    #expect(
      lines.allSatisfy {
        $0.contains(#""user":{"id":"998"},"group":{"id":"997"}"#) && $0.contains(#""unit":"web.service""#)
      })
    // What it makes of the last one when the process ends.
    var last = ReportLine.none
    last.bytes = try Array(#require(lines.last).utf8) + [UInt8(ascii: "\n")]
    let ends = [
      ExitReason(code: 1, result: "exit-code"), ExitReason(signal: SIGKILL, result: "oom-kill"), ExitReason(),
    ]
    let fatal = try ends.map { end in
      let made = try #require(OpenStall(line: last, sequence: 2).fatal(exit: end))
      return String(decoding: made.bytes.dropLast(), as: UTF8.self)
    }
    #expect(try ReportSchema.faults(in: Data((lines + fatal).joined(separator: "\n").utf8)) == "")
  }

  @Test("the mapping has every field, and none that is not there")
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
