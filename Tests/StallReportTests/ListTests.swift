import Foundation
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
}
