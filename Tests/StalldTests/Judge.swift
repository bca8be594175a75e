import Foundation
import Testing

/// Programs of others that tests judge by, and scripts that run them.
enum Judge {
  static let schema = Program.root.appending(path: "Config/schema/stall-report.schema.json")
  static let schemaOfLastRelease = Program.root.appending(path: "Config/schema/released/stall-report-1.0.schema.json")

  /// A Python with Tests/Support/requirements.txt, and one with requirements-clickhouse.txt; nil where they are not installed.
  static let python = interpreter("python")
  static let clickHouse = interpreter("clickhouse")

  private static func interpreter(_ name: String) -> String? {
    let path = Program.root.appending(path: ".build/judges/\(name)/bin/python3").path
    return FileManager.default.isExecutableFile(atPath: path) ? path : nil
  }

  /// Runs a script of Tests/Support, with Debian's Python if no other is given.
  static func run(_ script: String, _ arguments: [String], python: String = "/usr/bin/python3") throws -> Program {
    try Program.run(python, [Program.root.appending(path: "Tests/Support/\(script)").path] + arguments)
  }

  /// Report lines that Tests/Support/generate-reports.py makes.
  static func reports(_ arguments: String...) throws -> [String] {
    let made = try run("generate-reports.py", arguments)
    try #require(made.status == 0, "\(made.errors)")
    return made.output.split(separator: "\n").map(String.init)
  }

  /// What is wrong with lines by the published contract; empty if nothing is.
  static func faults(_ lines: [String]) throws -> String {
    let scratch = try ScratchDirectory()
    let file = scratch.url.appending(path: "lines.jsonl")
    try (lines.joined(separator: "\n") + "\n").write(to: file, atomically: true, encoding: .utf8)
    let script = Program.root.appending(path: "Tests/Support/validate-lines.py").path
    let judged = try Program.run(
      "/bin/sh", ["-c", #"exec /usr/bin/python3 "$0" "$1" < "$2""#, script, schema.path, file.path])
    return judged.output + judged.errors
  }
}
