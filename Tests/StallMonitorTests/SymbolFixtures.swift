import Foundation
import StallReport
import TestSupport

@testable import StallMonitor

/// Programs that the symbolizer's tests compile at run time into a directory of their own.
///
/// `clang`, `swiftc` and `llvm-symbolizer` come from the toolchain that runs the tests; `objcopy`, `strip`, `nm` and `readelf` from binutils.
final class SymbolFixtures: Sendable {
  private let scratch: ScratchDirectory
  var directory: URL { scratch.url }

  init() throws { scratch = try ScratchDirectory() }

  func path(_ name: String) -> String { directory.appendingPathComponent(name).path }

  /// Runs a program to its end and returns its standard output.
  @discardableResult
  func run(_ arguments: [String], input: String? = nil) throws -> String {
    var inputFile = FileHandle.nullDevice
    if let input {
      let file = path("input-\(UUID().uuidString)")
      try input.write(toFile: file, atomically: true, encoding: .utf8)
      inputFile = try FileHandle(forReadingFrom: URL(fileURLWithPath: file))
    }
    let program = try Program.run("/usr/bin/env", arguments, in: directory, input: inputFile)
    guard program.status == 0 else {
      throw FixtureFailure(command: arguments.joined(separator: " "), output: program.errors)
    }
    return program.output
  }

  /// Compiles C and returns the executable's path.
  func clang(_ source: String, _ flags: [String], name: String = "victim") throws -> String {
    try source.write(toFile: path("\(name).c"), atomically: true, encoding: .utf8)
    try run(["clang", "-Wl,--build-id=sha1", "-o", name] + flags + [path("\(name).c")])
    return path(name)
  }

  /// Whether clang links programs with its address sanitizer; Debian's does not.
  static let hasAddressSanitizer: Bool = {
    let file = try? SymbolFixtures().clang("int main(void) { return 0; }\n", ["-fsanitize=address", "-fuse-ld=lld"])
    return file != nil
  }()

  /// Compiles Swift and returns the executable's path.
  func swiftc(_ source: String, _ flags: [String], name: String = "victim") throws -> String {
    try source.write(toFile: path("\(name).swift"), atomically: true, encoding: .utf8)
    try run(["swiftc", "-Xlinker", "--build-id=sha1", "-o", name] + flags + [path("\(name).swift")])
    return path(name)
  }

  func buildID(_ file: String) throws -> [UInt8] {
    let notes = try run(["readelf", "-n", file])
    guard let found = notes.range(of: "Build ID: ") else { return [] }
    return Self.bytes(notes[found.upperBound...].prefix { $0.isHexDigit })
  }

  static func bytes(_ hex: Substring) -> [UInt8] {
    let digits = Array(hex)
    return stride(from: 0, to: digits.count - 1, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) }
  }

  func module(_ file: String) throws -> ModuleIdentity { ModuleIdentity(path: file, buildID: try buildID(file)) }

  /// Sizes and addresses of defined functions: what `nm -S` says.
  func functions(_ file: String) throws -> [(name: String, address: UInt64, size: UInt64)] {
    try run(["nm", "-S", "--defined-only", file]).split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ", maxSplits: 3)
      guard fields.count == 4, "tTwW".contains(fields[2]) else { return nil }
      guard let address = UInt64(fields[0], radix: 16) else { return nil }
      guard let size = UInt64(fields[1], radix: 16) else { return nil }
      return (String(fields[3]), address, size)
    }
  }

  func address(_ function: String, in file: String) throws -> UInt64 {
    guard let found = try functions(file).first(where: { $0.name == function }) else {
      throw FixtureFailure(command: "nm", output: "no function \(function)")
    }
    return found.address
  }

  /// What the toolchain's llvm-symbolizer says of each address: innermost first, names as the linker has them.
  ///
  /// Not addr2line: in binutils 2.40 it misses inlined calls whose ranges are DW_FORM_rnglistx (DWARF 5).
  func judge(_ file: String, _ addresses: [UInt64]) throws -> [[JudgedFrame]] {
    struct Answer: Decodable {
      struct Symbol: Decodable {
        var FunctionName: String
        var FileName: String
        var Line: Int
      }
      var Symbol: [Symbol]
    }
    let input = addresses.map { "0x" + String($0, radix: 16) }.joined(separator: "\n") + "\n"
    // An older one on PATH (Debian's) may not know this toolchain's DWARF: take the compiler's neighbour.
    let compiler = URL(fileURLWithPath: try run(["sh", "-c", "command -v swiftc"]).trimmingCharacters(in: .newlines))
    let beside = compiler.deletingLastPathComponent().appendingPathComponent("llvm-symbolizer").path
    let judge = FileManager.default.isExecutableFile(atPath: beside) ? beside : "llvm-symbolizer"
    return try run([judge, "--output-style=JSON", "--no-demangle", "-e", file], input: input)
      .split(separator: "\n").map { line in
        try JSONDecoder().decode(Answer.self, from: Data(line.utf8)).Symbol.map {
          // What has no file has no line for us: "<compiler-generated>:9" leads nobody anywhere.
          let known = !$0.FileName.isEmpty && !$0.FileName.hasSuffix("<compiler-generated>")
          return JudgedFrame(
            function: $0.FunctionName.isEmpty ? nil : $0.FunctionName,
            file: known ? $0.FileName : nil,
            line: known && $0.Line != 0 ? $0.Line : nil
          )
        }
      }
  }
}

/// One frame of the judge's answer.
struct JudgedFrame: Equatable {
  var function: String?
  var file: String?
  var line: Int?
}

/// A compiler or a tool that did not do its part.
struct FixtureFailure: Error {
  var command: String
  var output: String
}

/// Times for tests.
enum SymbolClock {
  static func now() -> UInt64 { DispatchTime.now().uptimeNanoseconds }
  /// Far enough that nothing is cut short on a loaded machine.
  static func generous() -> UInt64 { now() + 60_000_000_000 }
}
