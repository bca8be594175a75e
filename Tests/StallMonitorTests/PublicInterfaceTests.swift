import Foundation
import TestSupport
import Testing

/// The public interface of the library, as the compiler sees it.
@Suite(.serialized, .takingTurns) struct PublicInterfaceTests {
  private static let page = "Documentation/API.md"

  // MARK: The compiler's side

  private struct Graph: Decodable {
    struct Symbol: Decodable {
      struct Identifier: Decodable { var precise: String }
      struct Kind: Decodable { var identifier: String }
      struct Fragment: Decodable { var spelling: String }

      var identifier: Identifier
      var kind: Kind
      var pathComponents: [String]
      var declarationFragments: [Fragment]
    }

    struct Relationship: Decodable {
      var kind, source: String
      var targetFallback: String?
    }

    var symbols: [Symbol]
    var relationships: [Relationship]
  }

  /// The conformances that the page lists: those that a client can see a difference by.
  private static let conformances = [
    "Swift.Error", "Swift.RawRepresentable", "Swift.Sendable", "Swift.Hashable", "Swift.Equatable",
    "Swift.CustomStringConvertible",
  ]

  /// As the compiler calls this machine: Debian's has another name for it than swift.org's.
  private static let target: String = {
    struct Information: Decodable {
      struct Target: Decodable { var unversionedTriple: String }
      var target: Target
    }
    let said = try? Program.run("/usr/bin/env", ["swiftc", "-print-target-info"]).data
    let information = said.flatMap { try? JSONDecoder().decode(Information.self, from: $0) }
    return information?.target.unversionedTriple ?? "unknown"
  }()

  /// The public declarations of a built module, each with its type.
  private func declarations(in products: URL) throws -> Set<String> {
    let scratch = try ScratchDirectory()
    let extract = try Program.run(
      "/usr/bin/env",
      [
        "swift", "symbolgraph-extract", "-module-name", "StallMonitor", "-I", products.appending(path: "Modules").path,
        "-target", Self.target, "-minimum-access-level", "public", "-skip-synthesized-members",
        "-output-dir", scratch.path,
      ] + BuiltProducts.modulesInC(of: products))
    try #require(extract.status == 0, "\(extract.errors)")
    let graph = try JSONDecoder().decode(
      Graph.self, from: Data(contentsOf: scratch.url.appending(path: "StallMonitor.symbols.json")))
    var declarations: Set<String> = []
    for symbol in graph.symbols {
      let type = symbol.pathComponents.dropLast().joined(separator: ".")
      var text = symbol.declarationFragments.map(\.spelling).joined()
      if ["swift.struct", "swift.class", "swift.enum", "swift.protocol"].contains(symbol.kind.identifier) {
        let own = graph.relationships.filter { $0.kind == "conformsTo" && $0.source == symbol.identifier.precise }
        var conformances = Self.conformances.filter { name in own.contains { $0.targetFallback == name } }
        if conformances.contains("Swift.Hashable") { conformances.removeAll { $0 == "Swift.Equatable" } }
        text += ": " + conformances.map { String($0.dropFirst("Swift.".count)) }.joined(separator: ", ")
      } else if symbol.pathComponents.last == "description" {
        // As the conformance says.
        continue
      }
      declarations.insert(Self.normal(type, text))
    }
    return declarations
  }

  // MARK: The page's side

  /// The declarations of the page's first block of code, each with its type.
  private func declarations(of code: String) -> Set<String> {
    var types: [String] = []
    var declarations: Set<String> = []
    var current = ""
    func end() {
      defer { current = "" }
      guard !current.isEmpty else { return }
      let type = types.joined(separator: ".")
      if let list = current.wholeMatch(of: /((?:static )?(?:let|var)) ([\w, ]+)(: .*)/) {
        for name in list.2.split(separator: ",") {
          declarations.insert(Self.normal(type, "\(list.1) \(name)\(list.3)"))
        }
      } else {
        declarations.insert(Self.normal(type, current))
      }
    }
    for line in code.split(separator: "\n") {
      let text = line.replacing(/\s*\/\/.*/, with: "").trimmingCharacters(in: .whitespaces)
      if text.isEmpty { continue }
      if text == "}" {
        end()
        types.removeLast()
      } else if let header = text.wholeMatch(of: /((?:final class|struct) (\w+).*) {/) {
        end()
        current = String(header.1)
        end()
        types.append(String(header.2))
      } else {
        if text.starts(with: /(?:static |func |let |var |init\()/), !current.isEmpty { end() }
        current += text
      }
    }
    return declarations
  }

  /// A declaration without what can be written in more than one way: spaces, and the outer types of
  /// a name.
  private static func normal(_ type: String, _ text: String) -> String {
    #if compiler(>=6.3)
    let omitted = ["@discardableResult"]
    #else
    // The compiler's own list does not have it.
    let omitted = ["@discardableResult", "@Sendable"]
    #endif
    let short = omitted.reduce(text) { $0.replacing($1, with: "") }.replacing(
      /\bStall\w+\.|\bLoopDescription\.|\bWatchedLoopStatus\.|\bThreadBacktrace\./, with: "")
    return "\(type): " + short.filter { !$0.isWhitespace }
  }

  private func blocks() throws -> [String] {
    try DocumentationTests.text(Self.page).components(separatedBy: "```").enumerated()
      .filter { $0.offset % 2 == 1 }.map { String($0.element.dropFirst("swift\n".count)) }
  }

  // MARK: Tests

  @Test func thePageHasEachPublicDeclarationAndNoOther() throws {
    let module = try declarations(in: BuiltProducts.folder)
    let page = try declarations(of: blocks()[0])
    #expect(module.count > 100)
    #expect(module.subtracting(page).sorted() == [], "missing on \(Self.page)")
    #expect(page.subtracting(module).sorted() == [], "not public")
  }

  /// What traits add is not in the module as it is built for tests.
  @Test(arguments: try [("With traits", "Sources/StallMonitor/Ecosystem")] + Repository.integrations)
  func thePageNamesWhatOtherPackagesAdd(heading: String, folder: String) throws {
    let sections = try DocumentationTests.text(Self.page).components(separatedBy: "\n## ")
    let code = try #require(sections.first { $0.hasPrefix("\(heading)\n") }, "no section \(heading)")
    let files = try FileManager.default.contentsOfDirectory(atPath: Repository.file(folder).path)
    let names = try files.flatMap { file in
      try DocumentationTests.text("\(folder)/\(file)").matches(
        of: /public (?:final |static )*(?:class|struct|enum|var|let|func|init)(?: (\w+)|\((?:_ )?(\w+))/
      ).map { String($0.1 ?? $0.2 ?? "") }
    }
    #expect(!names.isEmpty)
    for name in names where name != "description" { #expect(code.contains(try Regex("\\b\(name)\\b")), "\(name)") }
  }

  /// A service builds on every platform: only loops of LoopEngine, which is for Linux, are missing
  /// there.
  @Test func theOtherPlatformsHaveTheSameInterface() throws {
    let scratch = Repository.file(".build/elsewhere")
    let build = try Program.run(
      "/usr/bin/env",
      [
        "swift", "build", "--package-path", Repository.root.path, "--scratch-path", scratch.path, "--target",
        "StallMonitor",
      ], environment: ["STALLMONITOR_PLATFORM": "other"])
    try #require(build.status == 0, "\(build.output)\(build.errors)")
    let linux = try declarations(in: BuiltProducts.folder)
    let other = try declarations(in: scratch.appending(path: "debug"))
    #expect(other.subtracting(linux).sorted() == [])
    #expect(linux.subtracting(other).allSatisfy { $0.contains("anyWatchableLoop") } && linux.count == other.count + 1)
  }

  /// A type that both forms have is declared once, in a file that both compile.
  @Test func noOtherTypeIsDeclaredTwice() throws {
    let types =
      try DocumentationTests.text("Sources/StallMonitorElsewhere/StallMonitor.swift")
      + DocumentationTests.text("Sources/StallMonitorElsewhere/Traits.swift")
      + DocumentationTests.text("Sources/StallMonitorElsewhere/Values.swift")
    let names = types.matches(of: /public (?:final )?(?:class|struct|enum) (\w+)/).map { String($0.1) }
    #expect(names == ["StallMonitor", "LoopWatch"])
  }
}
