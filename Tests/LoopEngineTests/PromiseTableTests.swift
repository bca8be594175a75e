import Foundation
import Testing

/// The table of promises names tests that exist.
@Suite struct PromiseTableTests {
  private static let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

  @Test func everyPromiseNamesTestsThatExist() throws {
    let table = try String(
      contentsOf: Self.directory.appending(path: "../../Documentation/LoopPromises.md"), encoding: .utf8)
    let rows = table.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("| promise") }
    let sources = try FileManager.default.contentsOfDirectory(at: Self.directory, includingPropertiesForKeys: nil)
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
