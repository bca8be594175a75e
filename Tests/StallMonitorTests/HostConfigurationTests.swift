import Foundation
import TestSupport
import Testing

/// What an operator sets in the environment of a host that is already built.
@Suite(.serialized, .takingTurns)
struct HostConfigurationTests {
  @Test(arguments: [
    ("STALLMONITOR_THRESHOLD", "fast", "250ms"), ("STALLMONITOR_THRESHOLD", "250", "ms"),
    ("STALLMONITOR_THRESHOLD", "0ms", "1ms"), ("STALLMONITOR_THRESHOLD", "-5s", "1ms"),
    ("STALLMONITOR_ENABLED", "perhaps", "true or false"), ("STALLMONITOR_SINK", "syslog", "file:"),
    ("STALLMONITOR_SINK", "file:", "file:"),
  ])
  func badValueIsLoggedAndTheServiceRunsUnwatched(variable: String, value: String, allowed: String) throws {
    let victim = try Victim.run("compute", milliseconds: 400, environment: [variable: value])
    #expect(victim.status == 0)
    #expect(victim.facts["watching"] == "false")
    #expect(victim.facts["took_ms"] != nil)
    #expect(victim.reports.isEmpty)
    let lines = victim.talk.split(separator: "\n").filter { !$0.hasPrefix("victim: ") }
    #expect(lines.count == 1)
    let line = try #require(lines.first)
    #expect(
      line.contains(variable) && line.contains(value) && line.contains(allowed) && line.contains("is not watched"))
  }

  @Test func misspeltVariableIsNamedAndTheHostIsWatched() throws {
    let victim = try Victim.run("compute", milliseconds: 400, environment: ["STALLMONITOR_TRESHOLD": "1s"])
    #expect(victim.talk.contains("STALLMONITOR_TRESHOLD") && victim.talk.contains("STALLMONITOR_THRESHOLD"))
    #expect(victim.reports.count == 2)
  }

  @Test func earlierNameIsIgnoredOnceIfItsReplacementIsSet() throws {
    let victim = try Victim.run(
      "compute", milliseconds: 400, environment: ["STALLMONITOR_THREADS": "some", "STALLMONITOR_OTHER_THREADS": "none"])
    let lines = victim.talk.split(separator: "\n").filter { !$0.hasPrefix("victim: ") }
    #expect(lines.count == 1)
    #expect(
      lines.first?.contains("STALLMONITOR_THREADS is ignored: STALLMONITOR_OTHER_THREADS, which replaces it") == true)
    #expect(victim.reports.count == 2)
  }

  @Test func disabledMonitorIsSilent() throws {
    let victim = try Victim.run("compute", milliseconds: 400, environment: ["STALLMONITOR_ENABLED": "false"])
    #expect(victim.facts["watching"] == "false")
    #expect(victim.reports.isEmpty)
    #expect(victim.talk.split(separator: "\n").allSatisfy { $0.hasPrefix("victim: ") })
  }

  @Test func linesGoToAFileAndAreAppended() throws {
    let file = FileManager.default.temporaryDirectory.appending(path: "stalld-\(UUID().uuidString).jsonl")
    defer { try? FileManager.default.removeItem(at: file) }
    for _ in 0..<2 {
      let victim = try Victim.run("compute", milliseconds: 400, environment: ["STALLMONITOR_SINK": "file:\(file.path)"])
      #expect(victim.reports.isEmpty, "nothing on standard output")
    }
    let lines = try Data(contentsOf: file)
    try ReportSchema.expectValid(lines)
    #expect(lines.split(separator: UInt8(ascii: "\n")).count == 4)
  }

  @Test func fileThatCannotBeOpenedIsNamed() throws {
    let victim = try Victim.run(
      "compute", milliseconds: 400, environment: ["STALLMONITOR_SINK": "file:/nowhere/x.jsonl"])
    #expect(victim.status == 0)
    #expect(victim.facts["watching"] == "false")
    #expect(victim.talk.contains("file:/nowhere/x.jsonl") && victim.talk.contains("No such file or directory"))
  }

  @Test func namesComeFromTheEnvironment() throws {
    let ours = try Victim.run(
      "compute", environment: ["STALLMONITOR_SERVICE_NAME": "caf\u{e9} \"x\"", "OTEL_SERVICE_NAME": "other"])
    #expect(ours.reports.first?["service", "name"] as? String == "caf\u{e9} \"x\"")
    let otel = try Victim.run(
      "compute", environment: ["OTEL_RESOURCE_ATTRIBUTES": "service.name=my%20shop,service.version=1.2"])
    #expect(otel.reports.first?["service", "name"] as? String == "my shop")
    #expect(otel.reports.first?["service", "version"] as? String == "1.2")
  }
}
