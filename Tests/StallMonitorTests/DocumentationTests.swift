import Foundation
import TestSupport
import Testing

/// The pages of the documentation: their links and their lines.
@Suite struct DocumentationTests {
  /// All pages, by their paths in the repository.
  static let pages = Snippet.pages

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

  /// What a new user types on a machine without anything, in a directory of any name.
  @Test(
    arguments: ["README.md", "Documentation/Installation.md"]
      + ["SwiftServer", "CService", "LocalAgent"].map { "Documentation/GettingStarted/\($0).md" })
  func aFirstBuildNeedsWhatThePageSays(_ page: String) throws {
    let text = try Self.text(page).replacing("\n", with: " ")
    #expect(text.contains("first build fetches swift-argument-parser from github.com"))
    for install in text.ranges(of: "apt-get install") {
      #expect(text[..<install.lowerBound].suffix(60).contains("sudo apt-get update"), "\(page)")
    }
    // The clone may be there.
    #expect(!text.contains("~/stalld/") && !text.contains("mkdir -p ~/stalld "))
    // Not on the PATH before a page says so.
    if !text.contains("export PATH=") { #expect(!text.contains("`stalld demo")) }
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

    /// The programs in Swift, each once; `RecipeTests` runs those of LoopEngine.
    private static let programs: [Written] = {
      let page = "Documentation/GettingStarted/SwiftServer.md"
      let first = (try? DocumentationTests.text(page)).flatMap { document(named: "Sources/first/main.swift", in: $0) }
      let all =
        [Written(page: page, code: first ?? "")]
        + Snippet.all(.program).filter { !$0.page.hasPrefix("Sources/LoopEngine/") }
        .map { Written(page: $0.testDescription, code: $0.code) }
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

    /// SwiftPM names a package in a directory after the directory.
    @Test func aCloneInADirectoryOfAnotherNameIsGivenItsName() throws {
      let page = try DocumentationTests.text("Documentation/GettingStarted/SwiftServer.md")
      let manifest = try #require(Self.document(named: "Package.swift", in: page))
      let scratch = try ScratchDirectory()
      let first = scratch.url.appending(path: "first")
      try FileManager.default.createDirectory(
        at: first.appending(path: "Sources/first"), withIntermediateDirectories: true)
      try Data().write(to: first.appending(path: "Sources/first/main.swift"))
      try FileManager.default.createSymbolicLink(
        at: scratch.url.appending(path: "NAME"), withDestinationURL: Repository.root)
      let refused = "unknown package 'stalld' in dependencies of target 'first'"
      let mended = #".package(name: "stalld", path: "../NAME")"#
      #expect(page.contains(refused) && page.contains(mended))
      for (line, isRefused) in [(#".package(path: "../NAME")"#, true), (mended, false)] {
        try manifest.replacing(#".package(path: "../stalld")"#, with: line)
          .write(to: first.appending(path: "Package.swift"), atomically: true, encoding: .utf8)
        let described = try Program.run(
          "/usr/bin/env", ["swift", "package", "--package-path", first.path, "describe"],
          environment: ["TMPDIR": scratch.url.path])
        #expect(described.errors.contains(refused) == isRefused, "\(described.errors)")
      }
    }

    // MARK: Parts of programs

    /// What parts of programs in Swift use, wherever they come from.
    private static let surroundings = """
      import LoopEngine
      import StallMonitor

      struct Index { func load() throws {} }
      struct Executor { func enqueue(_ job: @escaping @Sendable () -> Void) { job() } }

      """

    @Test(arguments: Snippet.all(.fragment)) func aPartOfAProgramInSwiftCompiles(_ snippet: Snippet) throws {
      let scratch = try ScratchDirectory()
      let source = scratch.url.appending(path: "main.swift")
      let parameters = "monitor: StallMonitor, worker: PermanentThread, index: Index, executor: Executor"
      try (Self.surroundings + "func snippet(\(parameters)) throws {\n\(snippet.code)}\n")
        .write(to: source, atomically: true, encoding: .utf8)
      let compiler = try BuiltProducts.compile(source, ["-typecheck"])
      #expect(compiler.status == 0, "\(compiler.errors)")
    }

    @Test(arguments: Snippet.all(.manifest)) func linesOfAManifestAreOnes(_ snippet: Snippet) throws {
      // The dependencies of the package are lines with `.package`, the others are of its target.
      let lines = snippet.code.split(separator: "\n").filter { !$0.hasPrefix("//") }
        .map { $0.replacing(/\/\/ .*/, with: "") }
      let packages = lines.filter { $0.contains(".package(") }
      var paths: Set<Substring> = []
      // Two lines may name the same package: by its path, and by its address.
      let choices = packages.filter { line in
        guard let path = line.firstMatch(of: /stalld"|stalld\.git"/) else { return true }
        return paths.insert(path.0.prefix(6)).inserted
      }
      let scratch = try ScratchDirectory()
      for dependencies in [choices] + packages.map({ [$0] }) {
        let manifest = """
          // swift-tools-version: 6.1
          import PackageDescription
          let package = Package(
            name: "service", dependencies: [\(dependencies.joined(separator: "\n"))],
            targets: [.executableTarget(name: "service", dependencies: [\(lines.filter { !$0.contains(".package(") }.joined(separator: "\n"))])])

          """
        try manifest.write(to: scratch.url.appending(path: "Package.swift"), atomically: true, encoding: .utf8)
        let dump = try Program.run(
          "/usr/bin/env", ["swift", "package", "--package-path", scratch.url.path, "dump-package"],
          environment: ["TMPDIR": scratch.url.path])
        #expect(dump.status == 0, "\(dump.errors)")
      }
    }

    /// Lines for SwiftNIO are in an example that is built with its packages (`make examples`).
    @Test(arguments: Snippet.all(.integration)) func linesForSwiftNIOAreInAnExample(_ snippet: Snippet) throws {
      let example = try DocumentationTests.text(
        "Examples/hummingbird-service/Sources/hummingbird-service/HummingbirdService.swift"
      )
      .split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
      for line in snippet.code.split(separator: "\n") {
        let code = line.replacing(/\/\/.*/, with: "").trimmingCharacters(in: .whitespaces)
        #expect(code.isEmpty || example.contains(code), "\(code)")
      }
    }

    @Test(arguments: Snippet.all(.fragmentInC)) func aPartOfAProgramInCCompiles(_ snippet: Snippet) throws {
      let scratch = try ScratchDirectory()
      let lines = snippet.code.replacing("…", with: "(void)count;").split(separator: "\n")
      let source = scratch.url.appending(path: "part.c")
      let includes = ["#include <sys/epoll.h>"] + lines.filter { $0.hasPrefix("#include") }.map(String.init)
      try """
      \(includes.joined(separator: "\n"))
      void part(int poller, struct epoll_event *events) {
      \(lines.filter { !$0.hasPrefix("#include") }.joined(separator: "\n"))
      }

      """.write(to: source, atomically: true, encoding: .utf8)
      let compiler = try Program.run(
        "/usr/bin/env",
        [
          "cc", "-Wall", "-Werror", "-fsyntax-only", "-I", Repository.file("Sources/CStallMonitor/include").path,
          source.path,
        ])
      #expect(compiler.status == 0, "\(compiler.errors)")
    }

    /// `…` marks what is left out.
    @Test(arguments: Snippet.all(.json)) func aReportLineIsJSON(_ snippet: Snippet) throws {
      let line = snippet.code.replacing(",…\n", with: ",\n").replacing(",…", with: "").replacing("[…,", with: "[")
      let report = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      let schema = try #require(
        try JSONSerialization.jsonObject(
          with: Data(contentsOf: Repository.file("Config/schema/stall-report.schema.json")))
          as? [String: Any])
      let known = try #require(schema["properties"] as? [String: Any])
      #expect(Set(report.keys).isSubset(of: known.keys))
    }

    /// Compiles a program against the targets as they are built beside the tests.
    private func compile(_ source: URL, into scratch: ScratchDirectory) throws -> String {
      let executable = scratch.url.appending(path: "program").path
      let compiler = try BuiltProducts.compile(
        source, try BuiltProducts.objects(of: "StallVictim") + ["-o", executable])
      try #require(compiler.status == 0, "\(compiler.output)\(compiler.errors)")
      return executable
    }
  }
}
