import Foundation
import StallReport
import TestSupport
import Testing

/// Code for processors that no folder describes.
struct ArchitectureTests {
  @Test("The C code of captures compiles for an architecture without a folder")
  func unknownArchitecture() throws {
    let folder = Repository.file("Sources/CUnwind")
    let sources = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
      .filter { $0.pathExtension == "c" }.map(\.path)
    #expect(!sources.isEmpty)
    let compiler = try #require(Program.installed("cc"))
    let compiled = try Program.run(
      compiler,
      ["-fsyntax-only", "-Werror", "-DCUNWIND_UNKNOWN_ARCHITECTURE", "-I\(folder.path)/include"] + sources)
    #expect(compiled.status == 0, "\(compiled.errors)")
  }

  @Test("A report says in the words of the C code why there are no stacks")
  func wordsAreTheSame() throws {
    for (file, failure) in [
      ("unsupported.c", CaptureFailure.unknownArchitecture), ("accessors.c", .unknownUnwinder),
      ("accessors.c", .unreadableMemory),
    ] {
      let source = try String(contentsOf: Repository.file("Sources/CUnwind/\(file)"), encoding: .utf8)
      #expect(source.contains("\"\(failure.rawValue)\";"))
    }
  }
}
