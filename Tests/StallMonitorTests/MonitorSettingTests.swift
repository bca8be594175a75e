import Foundation
import TestSupport
import Testing

@testable import StallMonitor

/// Wherever a setting is named, it is the table's.
struct MonitorSettingTests {
  private static func text(_ path: String) throws -> String {
    try String(contentsOf: Repository.file(path), encoding: .utf8)
  }

  @Test func namesAreUnique() {
    #expect(Set(MonitorSetting.all.map(\.key)).count == MonitorSetting.all.count)
    #expect(Set(MonitorSetting.all.map(\.variable)).count == MonitorSetting.all.count)
    #expect(MonitorSetting.all.allSatisfy { $0.variable.hasPrefix("STALLMONITOR_") })
  }

  @Test(arguments: MonitorSetting.all.filter { $0.standard != nil }.map(\.variable))
  func defaultIsTheConfigurations(variable: String) throws {
    var configuration = StallMonitorConfiguration()
    // What differs from the default is overwritten by it.
    let other = [
      "STALLMONITOR_ENABLED": "false", "STALLMONITOR_COOPERATIVE_POOL": "false",
      "STALLMONITOR_BACKGROUND_TASK_THRESHOLD": "2s", "STALLMONITOR_THRESHOLD": "1s",
      "STALLMONITOR_SINK": "file:/x", "STALLMONITOR_REPEAT_WINDOW": "1s", "STALLMONITOR_BUDGET": "1",
      "STALLMONITOR_SAMPLING": "1s", "STALLMONITOR_THREADS": "all", "STALLMONITOR_SYSTEMD_WATCHDOG": "true",
      "STALLMONITOR_DETAIL_AFTER": "1s", "STALLMONITOR_ABORT_AFTER": "1s",
    ]
    let setting = try #require(MonitorSetting.all.first { $0.variable == variable })
    #expect(setting.apply(try #require(other[variable]), &configuration))
    #expect(configuration != StallMonitorConfiguration())
    #expect(setting.apply(try #require(setting.standard), &configuration))
    #expect(configuration == StallMonitorConfiguration())
  }

  @Test func documentationHasEachSettingWithItsDefault() throws {
    let rows = try Self.text("Documentation/Configuration.md").split(separator: "\n").filter {
      $0.hasPrefix("| `STALLMONITOR_")
    }
    for setting in MonitorSetting.all {
      var start = "| `\(setting.variable)` | `\(setting.property)` |"
      if let standard = setting.standard { start += " `\(standard)` |" }
      #expect(rows.contains { $0.hasPrefix(start) }, "\(start)")
    }
    #expect(rows.count == MonitorSetting.all.count)
  }

  @Test("limits are the same in messages, documentation and doc comments")
  func limits() throws {
    let threshold = StallMonitorConfiguration.allowedThreshold
    #expect(threshold.words == "1 ms to 1 h" && threshold.spelled == "1ms to 1h")
    #expect(threshold.quoted == #""1ms" to "1h""# && threshold.milliseconds == 1...3_600_000)
    #expect(StallMonitorConfiguration.allowedRepeatWindow.words == "0 s to 1 h")
    let sampling = StallMonitorConfiguration.allowedSampling
    let budget = StallMonitorConfiguration.allowedBudget
    let expected = [
      ("Documentation/Configuration.md", "| `STALLMONITOR_THRESHOLD`", threshold.words),
      ("Documentation/Configuration.md", "| `STALLMONITOR_SAMPLING`", sampling.words),
      ("Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift", "| `threshold`", threshold.words),
      ("Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift", "| `sampling`", sampling.words),
      ("Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift", "| `budget`", budget.words),
      ("Sources/StallMonitor/Heartbeat/LoopDescription.swift", "How long a heartbeat", threshold.words),
      ("Sources/StallMonitor/Loops/StallMonitor+Loops.swift", "- threshold:", threshold.words),
    ]
    for (file, start, words) in expected {
      let line = try #require(try Self.text(file).split(separator: "\n").first { $0.contains(start) })
      #expect(line.contains(words), "\(file): \(line)")
    }
  }

  @Test("each form of a sink is documented, and read as it is written")
  func sinks() throws {
    let sinks = [StallMonitorConfiguration.Sink.standardOutput, .file(path: "/x:y"), .agent(path: "/run/a")]
    #expect(sinks.map { StallMonitorConfiguration.Sink("\($0)") } == sinks)
    for text in ["stdout:", "file:", "agent:", "agent:relative", "", "syslog"] {
      #expect(StallMonitorConfiguration.Sink(text) == nil, "\(text)")
    }
    let forms = StallMonitorConfiguration.Sink.forms
    for form in forms {
      let isWritten = sinks.contains { "\($0)".hasPrefix(form.prefix) }
      #expect(isWritten, "\(form.prefix)")
    }
    let mentions = [
      ("Documentation/Configuration.md", "| `STALLMONITOR_SINK`"),
      ("Sources/CStallMonitor/include/stallmonitor.h", "Where report lines go"),
      ("Sources/StallMonitor/Configuration/Configuration.swift", "`STALLMONITOR_SINK`"),
      ("Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift", "| `sink`"),
    ]
    for (file, start) in mentions {
      let line = try #require(try Self.text(file).split(separator: "\n").first { $0.contains(start) })
      for form in forms { #expect(line.contains(form.prefix), "\(file): \(form.prefix)") }
    }
  }

  @Test func docCommentsNameEachSetting() throws {
    let properties = try Self.text("Sources/StallMonitor/Configuration/Configuration.swift")
    let reader = try Self.text("Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift")
    for setting in MonitorSetting.all {
      #expect(properties.contains("`\(setting.variable)`"), "\(setting.variable)")
      #expect(reader.contains("`\(setting.key)`"), "\(setting.key)")
    }
  }

  /// Options in C are a selection; each is a setting of the table, but for the version, which has no variable.
  @Test func optionsInCAreSettings() throws {
    let header = try Self.text("Sources/CStallMonitor/include/stallmonitor.h")
    let start = try #require(header.range(of: "typedef struct stallmonitor_options {"))
    let end = try #require(header.range(of: "} stallmonitor_options;"))
    let members = header[start.upperBound..<end.lowerBound].split(separator: "\n")
      .filter { $0.hasSuffix(";") && !$0.contains("/*") && !$0.contains(" * ") }
      .compactMap { $0.dropLast().split { $0 == " " || $0 == "*" }.last.map(String.init) }
    let known = MonitorSetting.all.compactMap(\.option) + ["size", "service_version"]
    #expect(Set(members) == Set(known))
    let words = StallMonitorConfiguration.allowedThreshold.milliseconds.words
    #expect(header.contains("\(words). The default is 250."))
  }
}
