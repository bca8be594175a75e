import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallCapture

/// Code for processors that no folder describes.
struct ArchitectureTests {
  @Test("The C code of captures compiles for an architecture without a folder")
  func unknownArchitecture() throws {
    let folder = Repository.file("Sources/CUnwind")
    // The folders of architectures, too: their code is left out by conditions.
    let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
    let sources = files.compactMap { $0 as? URL }.filter { $0.pathExtension == "c" }.map(\.path)
    #expect(!sources.isEmpty)
    let compiler = try #require(Program.installed("cc"))
    let compiled = try Program.run(
      compiler,
      ["-fsyntax-only", "-Werror", "-DCUNWIND_UNKNOWN_ARCHITECTURE", "-I\(folder.path)/include"] + sources)
    #expect(compiled.status == 0, "\(compiled.errors)")
  }

  /// The Swift code cannot be built for another architecture here.
  @Test("conditions for one architecture do not apply to all others")
  func noArchitectureIsTheOthers() throws {
    let sources = Repository.file("Sources")
    let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
    var found = 0
    for case let file as URL in files where file.pathExtension == "swift" {
      let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        .map { $0.trimmingCharacters(in: .whitespaces) }.filter { $0.hasPrefix("#") }
      for (line, next) in zip(lines, lines.dropFirst()) where line == "#if arch(arm64)" {
        found += 1
        #expect(next.hasPrefix("#elseif arch(") || next == "#endif", "\(file.path)")
      }
    }
    #expect(found >= 2)
  }

  @Test(
    "each system call has the number of the kernel's headers",
    arguments: [
      ("x86_64/SystemCallNumbers+x86_64.swift", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
      ("aarch64/SystemCallNumbers+aarch64.swift", "/usr/include/asm-generic/unistd.h"),
    ])
  func numbersOfSystemCalls(file: String, header: String) throws {
    // The header of the other architectures may be missing.
    guard let definitions = try? String(contentsOfFile: header, encoding: .utf8) else { return }
    var known: [String: String] = [:]
    for match in definitions.matches(of: /#define __NR(?:3264)?_(\w+)\s+(\d+)\b/) {
      known[String(match.1)] = String(match.2)
    }
    for match in definitions.matches(of: /#define __NR_(\w+) __NR3264_(\w+)/) {
      known[String(match.1)] = known[String(match.2)]
    }
    let source = try String(contentsOf: Repository.file("Sources/StallCapture/\(file)"), encoding: .utf8)
    let rows = source.matches(of: /^    (\d+) (\w+)( |$)/.anchorsMatchLineEndings())
    #expect(rows.count > 300)
    let numbers = rows.compactMap { Int($0.1) }
    #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "rows are found by bisection")
    for row in rows {
      // Older headers lack the latest calls.
      guard let number = known[String(row.2)] else { continue }
      #expect(number == String(row.1), "\(file): \(row.2)")
    }
    #expect(rows.count { known[String($0.2)] != nil } > 250)
    let restart = try #require(source.firstMatch(of: /restart: Int64\? = (\d+)/))
    #expect(known["restart_syscall"] == String(restart.1))
  }

  /// What the build says first where the packages with these headers are missing.
  @Test(arguments: [
    ("CUnwind/libunwind_table.c", ["libunwind"], "libunwind's headers are missing: install libunwind-dev"),
    ("CSymbols/lines.c", ["elfutils", "dwarf.h"], "elfutils/libdw.h is missing: install libdw-dev"),
  ])
  func missingHeadersAreNamedWithTheirPackage(_ source: String, _ missing: [String], _ said: String) throws {
    let scratch = try ScratchDirectory()
    func clang(_ arguments: [String]) throws -> Program { try Program.run("/usr/bin/env", ["clang"] + arguments) }
    let own = try clang(["-print-resource-dir"]).output.trimmingCharacters(in: .newlines) + "/include"
    let machine = try Program.run("/bin/uname", ["-m"]).output.trimmingCharacters(in: .newlines) + "-linux-gnu"
    // The system's headers as links, without those of the package.
    var folders = [own]
    for folder in ["/usr/include", "/usr/include/\(machine)"] {
      let copy = scratch.url.appending(path: "\(folders.count)")
      try FileManager.default.createDirectory(at: copy, withIntermediateDirectories: true)
      for name in try FileManager.default.contentsOfDirectory(atPath: folder)
      where !missing.contains(where: name.hasPrefix) {
        try FileManager.default.createSymbolicLink(
          atPath: copy.appending(path: name).path, withDestinationPath: "\(folder)/\(name)")
      }
      folders.append(copy.path)
    }
    let file = Repository.file("Sources/\(source)")
    let compiled = try clang(
      ["-fsyntax-only", "-nostdinc", "-I\(file.deletingLastPathComponent().path)/include"]
        + folders.flatMap { ["-isystem", $0] } + [file.path])
    #expect(compiled.status != 0)
    let errors = compiled.errors.split(separator: "\n").filter { $0.contains("error: ") }
    #expect(errors.count == 2 && errors.first?.contains(said) == true, "\(compiled.errors)")
  }

  @Test("A report has the C code's reason for missing stacks")
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
