import Foundation
import StallReport
import TestSupport
import Testing

/// What hosts in C are shown: documentation, headers and examples.
struct ExamplesInCTests {
  /// A threshold in code is not changed by the agent's settings, and operators do not find out why.
  @Test func noExampleTakesTheThresholdFromTheOperator() throws {
    let examples = try FileManager.default.contentsOfDirectory(atPath: Repository.file("Examples").path)
      .map { "Examples/\($0)/service.c" }
      .filter { FileManager.default.fileExists(atPath: Repository.file($0).path) }
    let headers = Repository.headersInC.map { "Sources/CStallMonitor/include/\($0).h" }
    let documents = ["README.md", "Documentation/CServices.md", "Documentation/GettingStarted/CService.md"]
    #expect(headers.count >= 3 && examples.count >= headers.count - 1)
    for file in documents + headers + examples {
      let text = try String(contentsOf: Repository.file(file), encoding: .utf8)
      let calls = text.matches(of: /(?:loop_create|[a-z]+_start)\([^)]*"requests", ([0-9]+)\)/)
      #expect(!calls.isEmpty, "\(file)")
      for call in calls { #expect(call.1 == "0", "\(file): \(call.0)") }
      #expect(!text.contains(".threshold_ms ="), "\(file)")
    }
  }

  @Test func eachLibraryOfLoopsIsShown() throws {
    func text(_ path: String) throws -> String { try String(contentsOf: Repository.file(path), encoding: .utf8) }
    for header in Repository.headersInC {
      for page in ["Documentation/CServices.md", "Documentation/Versioning.md"] {
        #expect(try text(page).contains("\(header).h"), "\(page): \(header).h")
      }
    }
    // Pages that list them in words.
    let pages = [
      "Documentation/README.md", "Documentation/Hosts.md", "Documentation/GettingStarted/CService.md", "README.md",
      "packaging/debian/control", "Sources/CStallMonitor/include/stallmonitor.h",
    ]
    let examples = try FileManager.default.contentsOfDirectory(atPath: Repository.file("Examples").path)
    for example in examples
    where FileManager.default.fileExists(atPath: Repository.file("Examples/\(example)/service.c").path) {
      let library = example.replacing("-service", with: "")
      // A word of its own: `libevent` does not name `libev`. A header or a package may have a number behind it.
      let word = try Regex("(?:^|[^a-z])\(library)(?:[^a-z]|$)")
      for page in pages { #expect(try text(page).lowercased().contains(word), "\(page): \(library)") }
    }
    for loop in LoopLibrary.loops {
      let page = "Tests/Corpus/fingerprints/README.md"
      #expect(try text(page).contains("`\(loop)`"), "\(page): \(loop)")
    }
    // What it runs without arguments.
    let script = try text("scripts/run-examples")
    let line = try #require(script.split(separator: "\n").first { $0.hasPrefix("for name in ${*:-") })
    let run = Set(line.dropFirst("for name in ${*:-".count).prefix { $0 != "}" }.split(separator: " ").map(String.init))
    #expect(run == Set(examples))
  }
}
