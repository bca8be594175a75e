import Foundation
import TestSupport
import Testing

/// The programs of the documentation, compiled and run as they are written.
@Suite struct RecipeTests {
  struct Recipe: CustomTestStringConvertible {
    let title: String
    let code: String
    var testDescription: String { title }

    /// What the comments behind `print` say.
    var expected: [String] {
      code.split(separator: "\n").compactMap { line in line.range(of: ")  // ").map { String(line[$0.upperBound...]) } }
    }
  }

  @Test(arguments: ["Recipes.md", "SchedulingWork.md", "ClosuresAndTasks.md"].flatMap(recipes))
  func aRecipeRunsAsWritten(_ recipe: Recipe)
    throws
  {
    let program = try compile(recipe)
    defer { try? FileManager.default.removeItem(at: program.deletingLastPathComponent()) }
    let (output, status) = try run(program, [])
    #expect(status == 0 && output.split(separator: "\n").map(String.init) == recipe.expected, "\(output)")
    #expect(!recipe.expected.isEmpty)
  }

  /// Runs until a signal.
  @Test(arguments: recipes(in: "LoopEngine.md")) func theOverviewsProgramCompiles(_ recipe: Recipe) throws {
    let program = try compile(recipe)
    try? FileManager.default.removeItem(at: program.deletingLastPathComponent())
  }

  private static func recipes(in article: String) -> [Recipe] {
    let documentation = Repository.file("Sources/LoopEngine/Documentation.docc/\(article)")
    guard let text = try? String(contentsOf: documentation, encoding: .utf8) else { return [] }
    var title = article
    return text.components(separatedBy: "```").enumerated().compactMap { position, part in
      if position % 2 == 1 {
        return part.hasPrefix("swift\n") ? Recipe(title: title, code: String(part.dropFirst(6))) : nil
      }
      title = part.components(separatedBy: "\n").last { $0.hasPrefix("## ") } ?? title
      return nil
    }
  }

  private func compile(_ recipe: Recipe) throws -> URL {
    let directory = FileManager.default.temporaryDirectory.appending(path: "recipe-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let source = directory.appending(path: "main.swift")
    try recipe.code.write(to: source, atomically: true, encoding: .utf8)
    let program = directory.appending(path: "recipe")
    let compiler = try BuiltProducts.compile(
      source, try BuiltProducts.objects(of: "MainThreadVictim") + ["-o", program.path])
    try #require(compiler.status == 0, "\(compiler.output)\(compiler.errors)")
    return program
  }

  private func run(_ program: URL, _ arguments: [String]) throws -> (output: String, status: Int32) {
    let result = try Program.run(program.path, arguments)
    return (result.output + result.errors, result.signal == nil ? result.status : -1)
  }
}
