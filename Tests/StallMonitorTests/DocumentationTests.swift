import Foundation
import TestSupport
import Testing

/// The pages of the documentation: their links and their lines.
@Suite struct DocumentationTests {
  /// All pages, by their paths in the repository.
  static let pages: [String] = {
    let folders = ["", "Documentation", "Documentation/GettingStarted", "Documentation/Internals"]
    let parents = ["Examples", "Integrations"].flatMap { parent in names(in: parent).map { "\(parent)/\($0)" } }
    let catalogs = ["LoopEngine", "StallMonitor"].map { "Sources/\($0)/Documentation.docc" }
    return (folders + parents + catalogs).flatMap { folder in
      names(in: folder).filter { $0.hasSuffix(".md") }.map { folder.isEmpty ? $0 : "\(folder)/\($0)" }
    }
  }()

  private static func names(in folder: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: Repository.file(folder).path)) ?? []).sorted()
  }

  static func text(_ path: String) throws -> String {
    try String(contentsOf: Repository.file(path), encoding: .utf8)
  }

  /// The lines of a page outside of code.
  private static func prose(_ page: String) throws -> [(number: Int, line: Substring)] {
    var isCode = false
    return try text(page).split(separator: "\n", omittingEmptySubsequences: false).enumerated()
      .compactMap { number, line in
        if line.drop(while: { $0 == " " }).hasPrefix("```") {
          isCode.toggle()
          return nil
        }
        return isCode ? nil : (number + 1, line)
      }
  }

  /// What a heading is called in a link, as GitHub makes it.
  private static func anchor(_ heading: some StringProtocol) -> String {
    heading.lowercased().filter { $0.isLetter || $0.isNumber || "-_ ".contains($0) }
      .trimmingCharacters(in: .whitespaces).replacingOccurrences(of: " ", with: "-")
  }

  @Test func thePagesAreFound() {
    #expect(Self.pages.count > 50)
    #expect(Self.pages.contains("README.md") && Self.pages.contains("Examples/hello-service/README.md"))
  }

  @Test(arguments: pages) func linksLeadToFilesAndHeadings(of page: String) throws {
    for (number, line) in try Self.prose(page) {
      for link in line.matches(of: /\]\(([^)\s]+)\)/).map(\.1) where !link.hasPrefix("http") {
        let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let target =
          parts[0].isEmpty
          ? Repository.file(page)
          : Repository.file(page).deletingLastPathComponent().appending(path: String(parts[0])).standardized
        #expect(FileManager.default.fileExists(atPath: target.path), "\(page):\(number): \(link)")
        guard parts.count == 2, let text = try? String(contentsOf: target, encoding: .utf8) else { continue }
        let anchors = text.split(separator: "\n").filter { $0.hasPrefix("#") }
          .map { Self.anchor($0.drop { $0 == "#" }) }
        #expect(anchors.contains(String(parts[1])), "\(page):\(number): \(link)")
      }
    }
  }

  @Test(arguments: pages) func linesOfProseHaveAtMost100Columns(of page: String) throws {
    let long = try Self.prose(page).filter { _, line in
      let isExempt = ["|", "![", "<"].contains { line.hasPrefix($0) }
      // A link or a path that is longer than a line cannot be broken.
      let canBeBroken = line.drop { " -*0123456789.".contains($0) }.prefix(90).contains(" ")
      return line.count > 100 && !isExempt && canBeBroken
    }
    #expect(long.map(\.number) == [])
  }

  @Test func theReadmeIsShort() throws {
    #expect(try Self.text("README.md").split(separator: "\n", omittingEmptySubsequences: false).count <= 150)
  }

  /// Each page can be reached from the index.
  @Test func theIndexHasEachPage() throws {
    let index = try Self.text("Documentation/README.md")
    // The table that the benchmark writes is shown in Performance.md.
    for page in Self.pages where page.hasPrefix("Documentation/") && !page.hasSuffix("loop-table.md") {
      let name = String(page.dropFirst("Documentation/".count))
      #expect(name == "README.md" || index.contains("](\(name))"), "\(name)")
    }
  }
}

extension WatchedHosts {
  /// The programs of the documentation, compiled and run as they are written there.
  @Suite(.serialized, .takingTurns) struct DocumentedProgramTests {
    /// A program, and where it is first written.
    struct Written: CustomTestStringConvertible {
      var page: String
      var code: String
      var testDescription: String { page }
    }

    private static let pages = [
      "Documentation/GettingStarted/SwiftServer.md", "README.md", "Documentation/Hosts.md",
      "Documentation/Configuration.md",
      "Sources/StallMonitor/Documentation.docc/StallMonitor.md",
      "Sources/StallMonitor/Documentation.docc/SwiftConcurrency.md",
      "Sources/StallMonitor/Documentation.docc/RunLoops.md",
      "Sources/StallMonitor/Documentation.docc/ReactingToStalls.md",
    ]

    /// The programs in Swift, each once.
    ///
    /// SwiftNIO's packages have tests of their own.
    private static let programs: [Written] = {
      var all: [Written] = []
      for page in pages {
        let text = (try? DocumentationTests.text(page)) ?? ""
        let blocks = text.components(separatedBy: "```").enumerated().filter { $0.offset % 2 == 1 }.map(\.element)
        let codes =
          blocks.filter { $0.hasPrefix("swift\nimport") }.map { String($0.dropFirst(6)) }
          + [document(named: "Sources/first/main.swift", in: text)].compactMap { $0 }
        all += codes.filter { !$0.contains("NIO") }.map { Written(page: page, code: $0) }
      }
      var seen: Set<String> = []
      return all.filter { seen.insert($0.code).inserted }
    }()

    /// What a shell command of a page writes into a file.
    private static func document(named name: String, in text: String) -> String? {
      guard let start = text.range(of: "cat > \(name) <<'END'\n"),
        let end = text.range(of: "END\n", range: start.upperBound..<text.endIndex)
      else { return nil }
      return String(text[start.upperBound..<end.lowerBound])
    }

    private func judge(_ program: Program, _ function: String) throws {
      #expect(program.status == 0 && program.errors == "", "\(program.errors)")
      let lines = program.output.split(separator: "\n").filter { $0.hasPrefix("{") }.joined(separator: "\n")
      let reports = try WrittenReport.all(in: lines)
      // On a busy machine other turns may be late, too.
      let ended = reports.filter { $0.event == "stall.ended" && $0.culprit.contains(function) }
      #expect(ended.count == 1 && ended.allSatisfy { $0.duration > 590 }, "\(program.output)")
    }

    @Test func thePathToAFirstReportIsTheReadmes() throws {
      let readme = try DocumentationTests.text("README.md")
      let page = try DocumentationTests.text("Documentation/GettingStarted/SwiftServer.md")
      let code = try #require(Self.document(named: "Sources/first/main.swift", in: page))
      #expect(readme.contains("```swift\n\(code)```"))
      #expect(Self.programs.count >= 5)
    }

    @Test(arguments: programs) func aProgramInSwiftReportsItsStall(_ written: Written) throws {
      let scratch = try ScratchDirectory()
      let source = scratch.url.appending(path: "main.swift")
      try written.code.write(to: source, atomically: true, encoding: .utf8)
      let executable = try compile(source, into: scratch)
      // The others run until somebody ends them, or end at once.
      guard written.code.contains("usleep") else { return }
      try judge(
        Program.run(executable, limit: 60), written.code.contains("handleRequest") ? "handleRequest" : "closure")
    }

    @Test func theServiceInCReportsItsStall() throws {
      let library = Repository.file(".build/c-library/root")
      try #require(
        FileManager.default.fileExists(atPath: library.appending(path: "lib/pkgconfig/stallmonitor.pc").path),
        "libstallmonitor is missing: run `make test`, or `scripts/build-c-library \(library.path)`")
      let page = try DocumentationTests.text("Documentation/GettingStarted/CService.md")
      let code = try #require(Self.document(named: "service.c", in: page))
      let scratch = try ScratchDirectory()
      try code.write(to: scratch.url.appending(path: "service.c"), atomically: true, encoding: .utf8)
      // As the page says it, below another prefix.
      let start = try #require(page.range(of: "cc -g service.c")), end = try #require(page.range(of: " -o service\n"))
      let command = "PKG_CONFIG_PATH=\(library.path)/lib/pkgconfig; export PKG_CONFIG_PATH\n"
      let built = try Program.run(
        "/bin/sh", ["-c", command + page[start.lowerBound..<end.upperBound]], in: scratch.url)
      try #require(built.status == 0, "\(built.errors)")
      try judge(Program.run(scratch.url.appending(path: "service").path, limit: 60), "handle_request")
    }

    /// Compiles a program against the targets as they are built beside the tests.
    private func compile(_ source: URL, into scratch: ScratchDirectory) throws -> String {
      let products = BuiltProducts.folder
      // What a victim is linked of, without its own code: a folder of objects may have some that are no longer made.
      let list = try String(
        contentsOf: products.appending(path: "StallVictim.product/Objects.LinkFileList"), encoding: .utf8)
      let objects = list.split(separator: "\n").filter { !$0.contains("/StallVictim.build/") }.map(String.init)
      let executable = scratch.url.appending(path: "program").path
      let compiler = try Program.run(
        "/usr/bin/env",
        ["swiftc", "-g", "-swift-version", "6", "-warnings-as-errors", "-I", products.appending(path: "Modules").path]
          + BuiltProducts.modulesInC() + [source.path] + objects + ["-o", executable])
      try #require(compiler.status == 0, "\(compiler.output)\(compiler.errors)")
      return executable
    }
  }
}
