import Foundation
import StallMonitor
import TestSupport
import Testing

@testable import StallReport
@testable import stalld

/// Lists that a table in the code cannot make are compared with it.
struct ListTests {
  private func text(_ path: String) throws -> String {
    try String(contentsOf: Repository.file(path), encoding: .utf8)
  }

  /// A list of words in the schema.
  private func words(_ path: String...) throws -> [String] {
    let schema = try JSONText(Array(text("Config/schema/stall-report.schema.json").utf8))
    var value: JSONText.Value? = schema.root
    for key in path { value = value?["properties"]?[key] }
    return (value?["enum"]?.elements ?? []).compactMap { schema.string($0) }
  }

  @Test func causesOfTheSchema() throws {
    #expect(try words("stall", "cause") == Cause.allCases.map(\.rawValue))
  }

  /// The page makes class names of them, and `stalld tail` has nine columns for them.
  @Test func namesOfCausesFit() {
    for cause in Cause.allCases { #expect(cause.rawValue.wholeMatch(of: /[a-z]{1,9}/) != nil, "\(cause)") }
  }

  @Test func loopsOfTheSchema() throws {
    let kinds = LoopKind.nouns.map(\.key)
    #expect(try words("loop", "kind") == kinds)
    #expect(try Set(words("loop", "phase")) == Set(LoopPhase.allCases.map(\.rawValue)))
    #expect(Set(kinds).isSuperset(of: HeartbeatLoop.Kind.allCases.map(\.rawValue)))
    // Which of them a host of which kind has is the table of Hosts.md.
    let hosts = try text("Documentation/Hosts.md")
    for kind in kinds { #expect(hosts.contains("`\(kind)`"), "\(kind)") }
  }

  @Test func eventsAndMethodsOfTheSchema() throws {
    #expect(try Set(words("event", "name")) == Set(Report.Event.allCases.map(\.rawValue)))
    let schema = try text("Config/schema/stall-report.schema.json")
    let methods = CaptureMethod.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    #expect(schema.contains("\"enum\": [\(methods)]"))
  }

  @Test func lockKindsOfTheSchema() throws {
    #expect(try Set(words("stall", "evidence", "lock_kind")) == Set(LockHolder.Kind.allCases.map(\.rawValue)))
  }

  @Test func rolesOfThreadsInTheSchema() throws {
    let schema = try text("Config/schema/stall-report.schema.json")
    let roles = Report.OtherThread.Role.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
    #expect(schema.contains("\"enum\": [\(roles)]"))
  }

  @Test("the page has a colour for each cause: light, dark and printed")
  func colorsOfThePage() throws {
    let style = try text("Sources/stalld/Report/HTML/Page/page.css")
    for cause in Cause.allCases {
      let name = cause.rawValue
      #expect(style.components(separatedBy: "--\(name): #").count - 1 == 3, "\(name)")
      #expect(style.contains(".c-\(name) { color: var(--\(name)); fill: var(--\(name)); }"), "\(name)")
    }
  }

  @Test("the manual of the page has a row for each cause")
  func causesOfTheManual() throws {
    // The first table that has names.
    let rows = try text("Documentation/Reports.md").components(separatedBy: "\n")
      .drop { !$0.contains("| `") }.prefix { $0.contains("| `") }
    #expect(
      rows.compactMap { $0.split(separator: "`").dropFirst().first.map(String.init) } == Cause.allCases.map(\.rawValue))
  }

  @Test func colorsOfFirefoxDiffer() {
    #expect(Set(Cause.allCases.map(\.firefoxColor)).count == Cause.allCases.count)
  }

  @Test("CSV, JSON, the table and the page show the same columns")
  func columns() {
    let names = GroupColumn.all.map(\.name)
    #expect(Set(names).count == names.count)
    for grouping in Grouping.allCases {
      let table = GroupColumn.table(grouping).map(\.column.name)
      // What a terminal has no room for.
      let missing = Set(["untold", "fatal"] + [Grouping.culprit, .cause].filter { $0 == grouping }.map(\.rawValue))
      #expect(Set(table).count == table.count && Set(names).subtracting(table) == missing)
    }
    // The page shows the key, and finds a culprit in its stack.
    #expect(GroupColumn.all.filter { $0.pageName == nil }.map(\.name) == ["culprit"])
  }

  @Test("the page shows each column, and computes under a filter what depends on the stalls")
  func columnsOfThePage() throws {
    let ranking = try text("Sources/stalld/Report/HTML/Page/ranking.js")
    let model = try text("Sources/stalld/Report/HTML/Page/model.js")
    let reset = try #require(model.split(separator: "\n").first { $0.contains("{ ...data.groups[number], number, ") })
    for name in GroupColumn.all.compactMap(\.pageName) {
      #expect(ranking.contains("group.\(name)"), "\(name)")
      if name != "key", name != "cause" {
        let computed = try Regex("(group\\.\(name) \\+=|\(name): .*[(])")
        #expect(reset.contains(" \(name): ") && model.contains(computed), "\(name)")
      }
    }
    for grouping in Grouping.allCases { #expect(ranking.contains(" \(grouping.rawValue): '"), "\(grouping)") }
  }

  @Test(
    "each folder of configurations for a log shipper is in the documentation, and is tested or says that it is not run")
  func shippers() throws {
    let others = ["schema", "fleet", "grafana", "prometheus"]
    let folders = try FileManager.default.contentsOfDirectory(atPath: Repository.file("Config").path)
      .filter { !others.contains($0) && !$0.hasSuffix(".yaml") }
    #expect(folders.count >= 9)
    let table = try text("Documentation/Fleet.md").split(separator: "\n").filter { $0.hasPrefix("| ") }
    for folder in folders {
      let rows = table.filter { $0.contains("](../Config/\(folder)/") }
      #expect(!rows.isEmpty, "Fleet.md: \(folder)")
      let files = try FileManager.default.contentsOfDirectory(atPath: Repository.file("Config/\(folder)").path)
      let isMarked = try files.contains { try text("Config/\(folder)/\($0)").contains("Not run in CI") }
      #expect(
        rows.allSatisfy { $0.contains("| not run |") == isMarked && $0.contains("| tested, ") != isMarked }, "\(folder)"
      )
    }
  }

  @Test("the protocol of the agent says which share a client has of each limit")
  func limitsOfTheProtocol() throws {
    let page = try text("Documentation/AgentProtocol.md")
    let keys = AgentSettings.keys.map(\.name).filter { $0.hasPrefix("limits.") || $0.hasPrefix("details.") }
    #expect(keys.count >= 11)
    // A place is no limit.
    for key in keys where key != "details.directory" { #expect(page.contains("`\(key)`"), "\(key)") }
  }

  @Test("the files that depend on the processor are those that Internals/Limits.md lists")
  func filesOfTheArchitecture() throws {
    let sources = Repository.file("Sources")
    let files = try FileManager.default.subpathsOfDirectory(atPath: sources.path).filter { file in
      guard ["swift", "c", "h"].contains((file as NSString).pathExtension), !file.contains(/(x86_64|aarch64)\//) else {
        return false
      }
      // A file without a condition has the mark in a comment.
      return try text("Sources/\(file)").contains(
        /__(x86_64|aarch64)__|arch\((x86_64|arm64)\)|"x86_64"|\(layout of x86_64\)/)
    }
    let page = try text("Documentation/Internals/Limits.md")
    let listed = page.matches(of: /^- `Sources\/([^`]+)`/.anchorsMatchLineEndings()).map { String($0.1) }
    #expect(listed.sorted() == files.sorted())
  }
}
