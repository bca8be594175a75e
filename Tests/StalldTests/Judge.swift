import Foundation
import TestSupport
import Testing

/// Programs of others that tests judge by, and scripts that run them.
enum Judge {
  /// A Python with Tests/Support/requirements.txt, and one with requirements-clickhouse.txt; nil where they are not installed.
  static let python = interpreter("python")
  static let clickHouse = interpreter("clickhouse")

  private static func interpreter(_ name: String) -> String? {
    let path = Repository.file(".build/judges/\(name)/bin/python3").path
    return FileManager.default.isExecutableFile(atPath: path) ? path : nil
  }

  /// Runs a script of Tests/Support, with Debian's Python if no other is given.
  static func run(_ script: String, _ arguments: [String], python: String = "/usr/bin/python3") throws -> Program {
    try Program.run(python, [Repository.file("Tests/Support/\(script)").path] + arguments)
  }

  /// Report lines that Tests/Support/generate-reports.py makes.
  static func reports(_ arguments: String...) throws -> [String] {
    let made = try run("generate-reports.py", arguments)
    try #require(made.status == 0, "\(made.errors)")
    return made.output.split(separator: "\n").map(String.init)
  }
}
