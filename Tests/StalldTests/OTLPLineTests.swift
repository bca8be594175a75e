import Foundation
import StallReport
import TestSupport
import Testing

@testable import stalld

@Suite("Reports as OTLP", .serialized, .takingTurns)
struct OTLPLineTests {
  @Test(
    "each line parses, and contains the whole report",
    .enabled(if: Judge.python != nil, "the opentelemetry-proto wheel is missing: `make test` installs it"))
  func nothingIsLost() throws {
    let victim = try Program.run(
      Program.built("StallVictim", "debug").path, ["compute", "2000"],
      environment: ["STALLMONITOR_SINK": "stdout", "STALLMONITOR_THRESHOLD": "100ms"])
    let real = victim.output.split(separator: "\n").map(String.init)
    #expect(real.count >= 2)
    let reports = try real + Judge.reports("every-key") + Judge.reports("longest", "3")
    let scratch = try ScratchDirectory()
    let files = ["reports", "otlp"].map { scratch.url.appending(path: $0) }
    try reports.joined(separator: "\n").write(to: files[0], atomically: true, encoding: .utf8)
    let converted = try reports.map { try OTLPLine.convert(Array($0.utf8)) }
    #expect(
      converted.allSatisfy { line in line.filter { $0 == 0x0a }.count == 1 && line.last == 0x0a }, "one line each")
    try Data(converted.joined()).write(to: files[1])
    let judged = try Judge.run("check-otlp.py", files.map(\.path), python: #require(Judge.python))
    #expect(judged.status == 0 && judged.output.isEmpty, "\(judged.output)\(judged.errors)")
  }

  @Test("a line that is no report is refused with a reason")
  func foreignLines() {
    func reason(_ line: String) -> String {
      do {
        return String(decoding: try OTLPLine.convert(Array(line.utf8)), as: UTF8.self)
      } catch {
        return error.description
      }
    }
    #expect(reason("{\"a\":").hasPrefix("not JSON: a value is missing at byte "))
    #expect(reason(#"{"message":"hello"}"#) == "not a stall report")
    #expect(
      reason(#"{"event":{"name":"stall.ended","schema":"2.0"}}"#) == #"event.schema "2.0" is not 1.x"#)
    for time in ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00+01:00", "2026-01-01T00:00:00.Z"] {
      #expect(
        reason(#"{"@timestamp":"\#(time)","event":{"name":"stall.ended","schema":"1.0"}}"#).hasPrefix(
          "@timestamp is not"))
    }
  }

  @Test("stalld report --format otlp converts line by line, in order, and skips lines that are no reports")
  func command() throws {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "reports.jsonl")
    let reports = (1...3).map { AgentClient.report(id: $0) }
    try (reports[0] + "\nnonsense\n" + reports[1] + "\n\n" + reports[2]).write(
      to: file, atomically: true, encoding: .utf8)
    let run = try Program.run(try Program.built("stalld", "debug").path, ["report", "--format", "otlp", file.path])
    #expect(run.status == 0)
    let expected = try reports.map { String(decoding: try OTLPLine.convert(Array($0.utf8)), as: UTF8.self) }.joined()
    #expect(run.output == expected)
    #expect(run.errors.contains("reports.jsonl, line 2: not JSON"))
    #expect(
      try Program.run(try Program.built("stalld", "debug").path, ["report", "--format", "otlp", "/nowhere"]).status == 1
    )
  }

  @Test("fields of later minor versions become attributes by their path")
  func laterFields() throws {
    let line = try OTLPLine.convert(
      Array(
        #"{"@timestamp":"2026-01-01T00:00:00Z","event":{"name":"stall.moved","schema":"1.9"},"stall":{"new":{"a":[1,true,null,1e999]}}}"#
          .utf8))
    let text = String(decoding: line, as: UTF8.self)
    #expect(text.contains(#""timeUnixNano":"1767225600000000000""#))
    #expect(text.contains(#""eventName":"stall.moved""#))
    #expect(
      text.contains(
        #"{"key":"stall.new.a","value":{"arrayValue":{"values":[{"intValue":"1"},{"boolValue":true},{},{"stringValue":"1e999"}]}}}"#
      ))
  }

  @Test(
    "times are those of the calendar",
    arguments: [
      ("1970-01-01T00:00:00Z", 0), ("2000-02-29T12:30:45.5Z", 951_827_445_500_000_000),
      ("2026-11-21T06:04:01.913864703Z", 1_795_241_041_913_864_703),
      ("2024-12-31T23:59:60Z", 1_735_689_600_000_000_000),
      ("2026-03-01T00:00:00.1234567899Z", 1_772_323_200_123_456_789),
    ])
  func times(text: String, nanoseconds: UInt64) {
    #expect(Timestamp(rfc3339: text, form: .report)?.nanosecondsSince1970 == nanoseconds)
  }
}
