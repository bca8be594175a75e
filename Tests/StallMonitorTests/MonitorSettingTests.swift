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
    #expect(Set(Environment.known).count == MonitorSetting.all.flatMap(\.names).count)
    #expect(Environment.known.allSatisfy { $0.hasPrefix("STALLMONITOR_") })
  }

  /// One name: the property is the key, and the variable in upper snake case.
  @Test func namesFollowTheRule() {
    #expect(MonitorSetting.variable(of: "repeatWindow") == "STALLMONITOR_REPEAT_WINDOW")
    let exceptions = [
      "enabled": "isEnabled", "abortAfter": "actions: [.abort(after:)]",
      "writeDetailFileAfter": "actions: [.writeDetailFile(after:)]",
    ]
    for setting in MonitorSetting.all {
      #expect(setting.property == exceptions[setting.name] ?? setting.name)
      #expect(setting.variable == MonitorSetting.variable(of: setting.name))
    }
    let members = Mirror(reflecting: StallMonitorConfiguration()).children.compactMap(\.label)
    for setting in MonitorSetting.all where !setting.property.hasPrefix("actions") {
      #expect(members.contains(setting.property), "\(setting.property)")
    }
  }

  @Test(arguments: MonitorSetting.all.filter { $0.standard != nil }.map(\.variable))
  func defaultIsTheConfigurations(variable: String) throws {
    var configuration = StallMonitorConfiguration()
    // What differs from the default is overwritten by it.
    let other = [
      "STALLMONITOR_ENABLED": "false", "STALLMONITOR_WATCHES_TASK_POOL": "false",
      "STALLMONITOR_BACKGROUND_TASK_THRESHOLD": "2s", "STALLMONITOR_THRESHOLD": "1s",
      "STALLMONITOR_SINK": "file:/x", "STALLMONITOR_REPEAT_WINDOW": "1s",
      "STALLMONITOR_MAXIMUM_REPORTS_PER_MINUTE": "1", "STALLMONITOR_RESAMPLE_INTERVAL": "1s",
      "STALLMONITOR_OTHER_THREADS": "all", "STALLMONITOR_NOTIFIES_SYSTEMD_WATCHDOG": "true",
      "STALLMONITOR_WRITE_DETAIL_FILE_AFTER": "1s", "STALLMONITOR_ABORT_AFTER": "1s",
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
    let earlier = MonitorSetting.all.flatMap { setting in
      setting.earlierNames.map { "| `\(MonitorSetting.variable(of: $0))` | `\(setting.variable)` |" }
    }
    for row in earlier { #expect(rows.contains { $0 == row }, "\(row)") }
    #expect(rows.count == MonitorSetting.all.count + earlier.count)
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
      ("Documentation/Configuration.md", "| `STALLMONITOR_RESAMPLE_INTERVAL`", sampling.words),
      ("Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift", "| `threshold`", threshold.words),
      (
        "Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift", "| `resampleInterval`",
        sampling.words
      ),
      (
        "Sources/StallMonitor/Ecosystem/StallMonitorConfiguration+ConfigReader.swift", "| `maximumReportsPerMinute`",
        budget.words
      ),
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
      for name in setting.names { #expect(reader.contains("`\(name)`"), "\(name)") }
    }
  }

  /// Options in C are a selection; each is a setting of the table.
  @Test func optionsInCAreSettings() throws {
    let header = try Self.text("Sources/CStallMonitor/include/stallmonitor.h")
    let start = try #require(header.range(of: "typedef struct stallmonitor_options {"))
    let end = try #require(header.range(of: "} stallmonitor_options;"))
    let members = header[start.upperBound..<end.lowerBound].split(separator: "\n")
      .filter { $0.hasSuffix(";") && !$0.contains("/*") && !$0.contains(" * ") }
      .compactMap { $0.dropLast().split { $0 == " " || $0 == "*" }.last.map(String.init) }
    let known = MonitorSetting.all.compactMap(\.option) + ["size"]
    #expect(Set(members) == Set(known))
    let words = StallMonitorConfiguration.allowedThreshold.milliseconds.words
    #expect(header.contains("\(words). The default is 250."))
  }
}
