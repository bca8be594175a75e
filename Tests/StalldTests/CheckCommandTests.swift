import Foundation
import Testing

/// `stalld check`, and `stalld run` with settings that cannot be used, as programs.
struct CheckCommandTests {
  private let stalld: String
  private let scratch: ScratchDirectory

  init() throws {
    stalld = try Program.built("stalld", "debug").path
    scratch = try ScratchDirectory()
  }

  private func file(_ text: String) throws -> String {
    let url = scratch.url.appending(path: "stalld.yaml")
    try text.write(to: url, atomically: true, encoding: .utf8)
    return url.path
  }

  @Test func goodSettingsArePassedWithoutAWord() throws {
    let checked = try Program.run(stalld, ["check", "--config", file("limits: {memory: 8MiB}\n")])
    #expect(checked.status == 0)
    #expect(checked.output == "")
    #expect(checked.errors == "")
  }

  @Test func whatIsInForceIsPrintedAsYAML() throws {
    let path = try file("limits: {memory: 8MiB}\nservices: [{match: \"a b*\", budget: 3}]\n")
    let printed = try Program.run(
      stalld, ["check", "--print", "--config", path, "--output", "stdout"],
      environment: ["STALLD_LIMITS_CONNECTIONS": "9"])
    #expect(printed.status == 0)
    #expect(printed.output.contains("limits:\n  lines_per_second: 500\n"))
    #expect(printed.output.contains("  connections: 9\n"))
    #expect(printed.output.contains("  memory: 8MiB\n"))
    #expect(printed.output.contains("outputs:\n  - type: stdout\n"))
    #expect(printed.output.contains("services:\n  - match: \"a b*\"\n    budget: 3\n"))
    // Printed once more from what was printed, it is the same.
    let again = try Program.run(stalld, ["check", "--print", "--config", file(printed.output)])
    #expect(again.output == printed.output)
  }

  @Test(arguments: ["check", "run"])
  func mistakesAreNamedAndEndIt(_ command: String) throws {
    let path = try file("limts: {}\nlimits: {memory: 1}\n")
    let refused = try Program.run(
      stalld, [command, "--config", path], environment: ["STALLD_NONSENSE": "1", "STALLMONITOR_ENABLED": "false"])
    #expect(refused.status == 1)
    #expect(refused.output == "")
    let lines = refused.errors.split(separator: "\n")
    #expect(lines.count == 3)
    #expect(lines.first == "\(path):1: limts: no such key; did you mean limits?")
    #expect(lines.dropFirst().first?.hasPrefix("\(path):2: limits.memory = 1: allowed: a size from ") == true)
    #expect(lines.last?.hasPrefix("STALLD_NONSENSE=1: no such variable; ") == true)
  }

  @Test func aFlagThatIsNotKnownIsWrongUse() throws {
    #expect(try Program.run(stalld, ["check", "--nonsense"]).status == 64)
  }
}
