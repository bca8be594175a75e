import Foundation
import TestSupport
import Testing

@testable import stalld

/// The version is the same in the command, the C library, the change log and the pages.
struct VersionTests {
  private static func text(_ path: String) throws -> String {
    try String(contentsOf: Repository.file(path), encoding: .utf8)
  }

  @Test func theCommandAndTheDocumentationAgree() throws {
    let run = try Program.run(Program.built("stalld", "debug").path, ["--version"])
    #expect(run.output == stalldVersion + "\n")
    let entry = try #require(try Self.text("CHANGELOG.md").firstMatch(of: /\n## ([0-9.]+)/))
    #expect(String(entry.1) == stalldVersion)
    for page in ["README.md", "Documentation/Installation.md"] {
      let versions = try Self.text(page).matches(of: /from: "([0-9.]+)"/).map { String($0.1) }
      #expect(!versions.isEmpty && versions.allSatisfy { $0 == stalldVersion }, "\(page): \(versions)")
    }
  }

  /// The soname is a promise of its own: a release does not change it.
  @Test func theCLibraryHasTheVersionAndItsOwnSoname() throws {
    let scratch = try ScratchDirectory()
    let built = scratch.url.appending(path: "built")
    try FileManager.default.createDirectory(at: built, withIntermediateDirectories: true)
    try Data("library".utf8).write(to: built.appending(path: "libstallmonitor.so"))
    let prefix = scratch.url.appending(path: "prefix").path
    let run = try Program.run(
      Repository.file("scripts/build-c-library").path, [prefix], environment: ["BUILT": built.path])
    #expect(run.status == 0, "\(run.errors)")
    let description = try String(contentsOfFile: prefix + "/lib/pkgconfig/stallmonitor.pc", encoding: .utf8)
    #expect(description.contains("\nVersion: \(stalldVersion)\n"), "\(description)")
    #expect(FileManager.default.fileExists(atPath: prefix + "/lib/libstallmonitor.so.1"))
    #expect(
      try FileManager.default.destinationOfSymbolicLink(atPath: prefix + "/lib/libstallmonitor.so")
        == "libstallmonitor.so.1")
    #expect(try Self.text("packaging/debian/control").contains("\nPackage: libstallmonitor1\n"))
    #expect(try Self.text("Documentation/Versioning.md").contains("the soname `libstallmonitor.so.1`"))
  }
}
