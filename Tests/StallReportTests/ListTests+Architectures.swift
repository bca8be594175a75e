import Foundation
import TestSupport
import Testing

extension ListTests {
  /// The architectures that `CUnwind` has a folder for: what conditions call them, in Swift and in C.
  private static let architectures = [
    "x86_64": (swift: "x86_64", c: "__x86_64__"), "aarch64": (swift: "arm64", c: "__aarch64__"),
  ]

  @Test("each architecture that captures stacks is in the pages and in the tests")
  func architectures() throws {
    let folder = Repository.file("Sources/CUnwind")
    let found = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter {
      FileManager.default.fileExists(atPath: folder.appending(path: "\($0)/architecture.h").path)
    }
    #expect(Set(found) == Set(Self.architectures.keys))
    let unknown = try text("Sources/StallCapture/UnknownArchitecture.swift")
    let tests = try text("Tests/StallMonitorTests/ArchitectureTests.swift")
    for (name, conditions) in Self.architectures {
      #expect(tests.contains("\(name)/SystemCallNumbers+\(name).swift"), "ArchitectureTests.swift: \(name)")
      #expect(FileManager.default.fileExists(atPath: Repository.file("Sources/StallCapture/\(name)").path), "\(name)")
      #expect(unknown.contains("!arch(\(conditions.swift))"), "UnknownArchitecture.swift: \(name)")
    }
    // A page that names several architectures says something of each.
    let documentation = Repository.file("Documentation")
    let pages = try FileManager.default.subpathsOfDirectory(atPath: documentation.path).filter { $0.hasSuffix(".md") }
    var count = 0
    for page in ["README.md", "CHANGELOG.md"] + pages.map({ "Documentation/" + $0 }) {
      let text = try text(page)
      guard found.count(where: { text.contains($0) }) > 1 else { continue }
      count += 1
      for name in found { #expect(text.contains(name), "\(page): \(name)") }
    }
    #expect(count >= 9)
  }

  /// Files that have one rule for all but a named one.
  private static let withOneRule = [
    "CLinux/include/loop.h", "CLinux/loop.c", "CUnwind/include/cunwind_timer.h", "CUnwind/include/cunwind_unwind.h",
    "LoopEngine/Sources/DescriptorTable.swift",
  ]

  @Test("Internals/Limits.md lists exactly the files that depend on the processor")
  func filesOfTheArchitecture() throws {
    let sources = Repository.file("Sources")
    let files = try FileManager.default.subpathsOfDirectory(atPath: sources.path).filter { file in
      let folders = Self.architectures.keys.map { "\($0)/" }
      guard ["swift", "c", "h"].contains((file as NSString).pathExtension),
        !folders.contains(where: { file.contains($0) })
      else {
        return false
      }
      let source = try text("Sources/\(file)")
      // A file without a condition has the mark in a comment.
      return source.contains("(layout of x86_64)")
        || Self.architectures.contains { name, conditions in
          source.contains("arch(\(conditions.swift))") || source.contains(conditions.c)
            || source.contains("\"\(name)\"")
        }
    }
    let page = try text("Documentation/Internals/Limits.md")
    let listed = page.matches(of: /^- `Sources\/([^`]+)`/.anchorsMatchLineEndings()).map { String($0.1) }
    #expect(listed.sorted() == files.sorted())
    // A file that was forgotten has a branch for the others, and not for a new one.
    for file in files where !Self.withOneRule.contains(file) {
      let source = try text("Sources/\(file)")
      for (name, conditions) in Self.architectures {
        #expect(
          source.contains("arch(\(conditions.swift))") || source.contains(conditions.c), "\(file): \(name)")
      }
    }
  }
}
