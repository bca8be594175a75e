import Foundation
import TestSupport
import Testing

@testable import stalld

/// stalld.yaml(5), as it is made from the table of keys.
struct SettingsManualTests {
  @Test func everyKeyIsExplained() {
    let text = SettingsManual().text
    let names =
      AgentSettings.keys.map(\.name) + AgentSettings.Output.Kind.allCases.flatMap(\.keyNames)
      + AgentSettings.ServiceOverride.keys.map(\.name)
    for name in names { #expect(text.contains(".It Cm \(name)\n"), "\(name)") }
    for key in AgentSettings.keys where !key.isList {
      #expect(text.contains(".It Ev \(AgentSettings.variable(key.name))\n"))
    }
    #expect(AgentSettings.variable("limits.incomplete_line_timeout") == "STALLD_LIMITS_INCOMPLETE_LINE_TIMEOUT")
  }

  @Test("the example of a service in the shipped file has every key")
  func everyKeyOfAServiceHasAnExample() throws {
    let example = try #require(SettingsReference.file.split(separator: "\n").first { $0.hasPrefix("  # - {match: ") })
    for key in AgentSettings.ServiceOverride.keys { #expect(example.contains("\(key.name): "), "\(key.name)") }
  }

  /// Each group has a description, so the writer omits none.
  @Test func everyKeyIsInAGroup() {
    let groups = Set(AgentSettings.groups.map(\.name))
    for key in AgentSettings.keys { #expect(groups.contains(String(key.name.prefix { $0 != "." })), "\(key.name)") }
  }

  @Test(.enabled(if: Program.installed("groff") != nil, "groff is missing (Debian: groff-base)"))
  func troffReportsNoProblem() throws {
    let scratch = try ScratchDirectory()
    let page = scratch.url.appending(path: "stalld.yaml.5")
    try SettingsManual().text.write(to: page, atomically: true, encoding: .utf8)
    let set = try Program.run(Program.installed("groff")!, ["-mandoc", "-ww", "-rLL=80n", "-Tutf8", page.path])
    #expect(set.errors == "")
    #expect(set.output.contains("limits.memory"))
    // The example is one that can be used.
    let lines = SettingsManual().text.components(separatedBy: ".Bd -literal\n").dropFirst().first ?? ""
    let example = lines.components(separatedBy: ".Ed").first ?? ""
    var (settings, reader) = (AgentSettings(), SettingsReader(file: "example"))
    reader.read(YAMLDocument(Array(example.replacing("\\-", with: "-").utf8)), into: &settings)
    #expect(reader.problems == [])
    #expect(settings.services.count == 1)
  }
}
