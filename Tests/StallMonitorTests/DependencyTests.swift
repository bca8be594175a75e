import Foundation
import TestSupport
import Testing

/// What a host takes on with the library, all traits off: none of the ecosystem's packages, and no Foundation.
@Suite(.serialized, .takingTurns)
struct DependencyTests {
  @Test(arguments: Victim.Build.allCases)
  func hostsBinaryNeedsNoFoundation(build: Victim.Build) throws {
    let (status, output) = try run("readelf", "--dynamic", build.executable("StallVictim").path)
    #expect(status == 0)
    let needed = output.split(separator: "\n").filter { $0.contains("(NEEDED)") }
    #expect(needed.contains { $0.contains("libc.so") })
    for library in ["Foundation", "libunwind", "libdw"] {
      #expect(!needed.contains { $0.contains(library) }, "\(needed)")
    }
    // The other way round: the same look finds it in a host that has it.
    let other = try run("readelf", "--dynamic", build.executable("FoundationVictim").path)
    #expect(other.output.contains("Foundation"))
  }

  /// A service on Dispatch or Foundation does not link the run loop.
  @Test(arguments: ["FoundationVictim", "DispatchMainVictim", "AsyncMainVictim"])
  func hostWithoutLoopContainsNoLoopEngine(program: String) throws {
    let symbols = try symbols(of: program)
    #expect(symbols.contains { $0.contains("12StallMonitor") })
    #expect(symbols.filter { $0.contains("10LoopEngine") } == [])
    // The other way round: the same search finds it in a host that has it.
    #expect(try self.symbols(of: "StallVictim").contains { $0.contains("10LoopEngine") })
  }

  private func symbols(of program: String) throws -> [Substring] {
    // nm is in binutils, which the toolchain itself needs.
    let (status, output) = try run("nm", try Victim.Build.debug.executable(program).path)
    #expect(status == 0)
    return output.split(separator: "\n")
  }

  @Test func librariesTargetsHaveNoPackageWithoutATrait() throws {
    // The build directory is locked by the run of the tests.
    let scratch = FileManager.default.temporaryDirectory.appending(path: "stalld-scratch-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: scratch) }
    let (status, output) = try run(
      "swift", "package", "--package-path", Repository.root.path, "--scratch-path", scratch.path, "dump-package")
    #expect(status == 0)
    let manifest = try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
    let targets = try #require(manifest["targets"] as? [[String: Any]])
    let names = [
      "CLinux", "CUnwind", "CSymbols", "TurnSource", "LoopEngine", "StallMonitor", "CStallMonitor", "StallMonitorC",
    ]
    let libraries = targets.filter { names.contains($0["name"] as? String ?? "") }
    #expect(libraries.count == names.count)
    var traits: [String: [String]] = [:]
    for library in libraries {
      for case let dependency as [String: Any] in library["dependencies"] as? [Any] ?? [] {
        // [name, package, module aliases, condition]
        guard let product = dependency["product"] as? [Any] else { continue }
        let condition = product.last as? [String: Any]
        traits["\(product[0])"] = condition?["traits"] as? [String] ?? []
      }
    }
    #expect(
      traits == [
        "Logging": ["SwiftLog"], "CoreMetrics": ["SwiftMetrics"], "ServiceLifecycle": ["SwiftServiceLifecycle"],
        "Configuration": ["SwiftConfiguration"],
      ])
    let defaults = try #require((manifest["traits"] as? [[String: Any]])?.first { $0["name"] as? String == "default" })
    #expect(defaults["enabledTraits"] as? [String] == [])
  }

  /// The command's argument parser is all that is resolved.
  @Test(.enabled(if: Program.installed("git") != nil, "git is missing, which resolves packages"))
  func hostsPackageResolvesNothingOfTheEcosystem() throws {
    let package = FileManager.default.temporaryDirectory.appending(path: "stalld-host-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: package) }
    try FileManager.default.createDirectory(
      at: package.appending(path: "Sources/host"), withIntermediateDirectories: true)
    try "import StallMonitor\n".write(
      to: package.appending(path: "Sources/host/main.swift"), atomically: true, encoding: .utf8)
    let manifest = """
      // swift-tools-version: 6.1
      import PackageDescription
      let package = Package(
        name: "host", dependencies: [.package(name: "stalld", path: "\(Repository.root.path)")],
        targets: [.executableTarget(name: "host", dependencies: [.product(name: "StallMonitor", package: "stalld")])])
      """
    try manifest.write(to: package.appending(path: "Package.swift"), atomically: true, encoding: .utf8)
    let (status, output) = try run("swift", "package", "--package-path", package.path, "resolve")
    #expect(status == 0, "\(output)")
    let resolved = try JSONSerialization.jsonObject(with: Data(contentsOf: package.appending(path: "Package.resolved")))
    let pins = try #require((resolved as? [String: Any])?["pins"] as? [[String: Any]])
    #expect(pins.map { $0["identity"] as? String } == ["swift-argument-parser"])
  }

  private func run(_ command: String...) throws -> (status: Int32, output: String) {
    let program = try Program.run("/usr/bin/env", command)
    return (program.status, program.output)
  }
}
