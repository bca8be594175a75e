import Foundation
import StallReport
import TestSupport
import Testing

/// What hosts in C are shown: documentation, headers and examples.
struct ExamplesInCTests {
  /// A threshold in code is not changed by the agent's settings, and operators do not find out why.
  @Test func noExampleTakesTheThresholdFromTheOperator() throws {
    let examples = try services().map { "Examples/\($0.example)/service.c" }
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

  private func text(_ path: String) throws -> String {
    try String(contentsOf: Repository.file(path), encoding: .utf8)
  }

  /// The names under `Examples` of services in C, and the library that each is for.
  private func services() throws -> [(example: String, library: String)] {
    try FileManager.default.contentsOfDirectory(atPath: Repository.file("Examples").path).sorted()
      .filter { FileManager.default.fileExists(atPath: Repository.file("Examples/\($0)/service.c").path) }
      .map { ($0, $0.replacing("-service", with: "")) }
  }

  @Test func eachServiceIsRunByTestsAndOnTheOtherArchitecture() throws {
    let libraries = Set(try services().map(\.library))
    #expect(libraries.count >= 2)
    // The arguments of the test in front of it, and the words of the script's loops.
    let tests = try text("Tests/StallMonitorTests/CHostTests.swift")
    let arguments = try #require(
      tests.components(separatedBy: "func exampleIsReportedWithItsFunction").first?
        .components(separatedBy: "@Test(arguments: [").last)
    let stalls = Set(arguments.matches(of: /\("([\w-]+)", "[^"]+", "(\w+)"\)/).map { "\($0.1):\($0.2)" })
    #expect(Set(stalls.map { $0.prefix { $0 != ":" } }.map(String.init)) == libraries)
    let script = try text("scripts/test-aarch64")
    func words(of variable: String) throws -> Set<String> {
      let loop = try #require(
        script.firstMatch(of: Regex("\n *for \(variable) in ([a-z: -]+); do").dotMatchesNewlines()))
      return Set((loop.output[1].substring ?? "").split(separator: " ").map(String.init))
    }
    #expect(try words(of: "name") == libraries)
    #expect(try words(of: "stall") == stalls)
    // What they are built with.
    let makefile = try text("Makefile")
    let packages = try #require(makefile.split(separator: "\n").first { $0.hasPrefix("C_HOSTS := ") }).split(
      separator: " ")
    for package in packages where package.hasSuffix("-dev") {
      for file in ["scripts/chroot.sh", "scripts/test-aarch64"] {
        #expect(try text(file).contains(package), "\(file): \(package)")
      }
    }
  }

  @Test func eachLibraryOfLoopsIsShown() throws {
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
    for (_, library) in try services() {
      // A word of its own: `libevent` does not name `libev`. A header or a package may have a number behind it.
      #expect(LoopLibrary.all.contains { $0.name.lowercased() == library }, "LoopLibrary.all: \(library)")
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
    // What it does with each service in Swift.
    let services = try services().map(\.example)
    for example in examples where !services.contains(example) {
      #expect(script.contains("\n\(example)() {"), "scripts/run-examples: \(example)")
    }
  }
}
