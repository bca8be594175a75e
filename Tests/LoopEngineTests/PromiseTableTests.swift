import Foundation
import TestSupport
import Testing

/// The table of promises names tests that exist.
@Suite struct PromiseTableTests {
  @Test func everyPromiseNamesTestsThatExist() throws {
    let table = try String(contentsOf: Repository.file("Documentation/LoopPromises.md"), encoding: .utf8)
    let rows = table.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("| promise") }
    let sources = try FileManager.default.contentsOfDirectory(
      at: Repository.file("Tests/LoopEngineTests"), includingPropertiesForKeys: nil
    )
    .filter { $0.pathExtension == "swift" }.map { try String(contentsOf: $0, encoding: .utf8) }.joined()
    for row in rows {
      let tests = (row.split(separator: "|").last ?? "").split(separator: ",").map {
        $0.trimmingCharacters(in: CharacterSet(charactersIn: " `"))
      }
      #expect(!tests.isEmpty && tests.allSatisfy { sources.contains("func \($0)(") }, "\(row)")
    }
    #expect(rows.count > 100)
  }
}
