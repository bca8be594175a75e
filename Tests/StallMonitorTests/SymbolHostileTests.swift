import Foundation
import StallReport
import Synchronization
import TestSupport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// Truncated and corrupted files: no crash, no hang, whatever the bytes say.
///
/// A crash here ends the test process, as it would end a service: the symbolizer runs in the
/// service's process.
@Suite(.serialized) struct SymbolHostileTests {
  let fixtures: SymbolFixtures

  init() throws {
    fixtures = try SymbolFixtures()
    #expect(Symbolizer.load() == nil)
  }

  /// xorshift64*, so that a failing variant can be made again.
  struct Random: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state ^= state >> 12
      state ^= state << 25
      state ^= state >> 27
      return state &* 2_685_821_657_736_338_717
    }
  }

  static let variants: [[String]] = [
    ["-gdwarf-4", "-O2"], ["-gdwarf-5", "-O2"], ["-gdwarf-5", "-O2", "-gz=zlib"],
  ]

  /// Asks for addresses all over the file, and returns the longest time that one answer took, in ns.
  private func ask(_ bytes: Data, _ module: ModuleIdentity, _ addresses: [UInt64]) throws -> UInt64 {
    try bytes.write(to: URL(fileURLWithPath: module.path))
    let symbolizer = Symbolizer(debugRoots: [])
    var longest: UInt64 = 0
    for address in addresses {
      let start = SymbolClock.now()
      _ = symbolizer.symbolize(module: module, address: address, deadline: start + 50_000_000)
      longest = max(longest, SymbolClock.now() - start)
    }
    return longest
  }

  private func prepare(_ flags: [String]) throws -> (bytes: Data, module: ModuleIdentity, addresses: [UInt64]) {
    let file = try fixtures.clang(SymbolizerTests.cSource, ["-g"] + flags)
    var module = try fixtures.module(file)
    module.path = fixtures.path("hostile")
    let functions = try fixtures.functions(file)
    let inside = functions.flatMap { function -> [UInt64] in [function.address, function.address + function.size / 2] }
    let addresses: [UInt64] = inside + [0, 1, UInt64.max]
    return (try Data(contentsOf: URL(fileURLWithPath: file)), module, addresses)
  }

  @Test(arguments: variants) func truncatedAnywhere(flags: [String]) throws {
    let (bytes, module, addresses) = try prepare(flags)
    for length in stride(from: 0, to: bytes.count, by: max(1, bytes.count / 300)) {
      let longest = try ask(bytes.prefix(length), module, addresses)
      #expect(longest < 2_000_000_000, "cut to \(length) bytes")
    }
  }

  @Test(arguments: variants, [UInt64(1), 2, 3]) func corruptedAnywhere(flags: [String], seed: UInt64) throws {
    let (bytes, module, addresses) = try prepare(flags)
    var random = Random(state: seed &* 0x9e37_79b9_7f4a_7c15)
    for variant in 0..<300 {
      var corrupt = bytes
      for _ in 0..<Int.random(in: 1...12, using: &random) {
        let value: UInt8 = [0, 0xff, 0x7f, 0x80, UInt8.random(in: 0...255, using: &random)].randomElement(
          using: &random)!
        // Half of it in the debug sections and headers, which lie in the file's last part.
        let low = Bool.random(using: &random) ? 0 : bytes.count / 4
        corrupt[Int.random(in: low..<bytes.count, using: &random)] = value
      }
      let longest = try ask(corrupt, module, addresses)
      #expect(longest < 2_000_000_000, "seed \(seed), variant \(variant)")
    }
  }

  /// A mapped file would raise SIGBUS here, and end the process.
  @Test func fileIsCutWhileItIsRead() throws {
    let file = try fixtures.clang(SymbolizerTests.cSource, ["-g", "-O2"])
    let module = try fixtures.module(file)
    let address = try fixtures.address("hidden_outer", in: file)
    let whole = Symbolizer(debugRoots: []).symbolize(
      module: module, address: address, deadline: SymbolClock.generous())
    #expect(whole.frames.last?.linkageName == "hidden_outer")
    let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
    let isDone = Atomic(false)
    let cutter = Thread {
      let descriptor = open(file, O_WRONLY)
      var length = 0
      while !isDone.load(ordering: .relaxed) {
        length = (length + 4099) % bytes.count
        ftruncate(descriptor, off_t(length))
        // Long enough for a look-up to begin, which the next round then cuts in the middle.
        bytes.withUnsafeBytes { _ = pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        usleep(UInt32(length % 97))
      }
      close(descriptor)
    }
    cutter.start()
    let end = SymbolClock.now() + 1_500_000_000
    var answers = (whole: 0, less: 0)
    while SymbolClock.now() < end {
      let symbolizer = Symbolizer(debugRoots: [])
      for offset in UInt64(0)..<8 {
        let answer = symbolizer.symbolize(
          module: module, address: address + offset, deadline: SymbolClock.generous())
        // Nothing, or the truth.
        let names = Set(answer.frames.map(\.linkageName))
        #expect(names.isSubset(of: ["inner", "middle", "hidden_outer"]))
        if offset == 0, answer == whole { answers.whole += 1 } else if answer.frames == [] { answers.less += 1 }
      }
      symbolizer.trim()
    }
    isDone.store(true, ordering: .relaxed)
    while !cutter.isFinished { usleep(1000) }
    #expect(answers.less > 0, "no look-up met a file that was cut")
  }

  /// A line program that claims four bytes more than its section has, which lies in the heap once it is unpacked.
  ///
  /// The address sanitizer notices what a test cannot.
  @Test(.enabled(if: SymbolFixtures.hasAddressSanitizer, "this clang has no address sanitizer"))
  func nothingIsReadBeyondAnUnpackedSection() throws {
    let file = try fixtures.clang(SymbolizerTests.cSource, ["-g", "-gdwarf-5", "-gz=none"])
    // The length, version 5, the sizes of an address and of a selector, the header's length, five
    // bytes (the last is the number of opcodes), and 255 pairs that say what a directory's entry
    // has: all of them 0, to the end.
    let lines: [UInt8] = [64, 0, 0, 0, 5, 0, 8, 0, 56, 0, 0, 0, 1, 1, 1, 0, 1, 1, 255]
    let whole = lines + [UInt8](repeating: 0, count: 64 - lines.count)
    let section = fixtures.path("lines")
    try Data(whole).write(to: URL(fileURLWithPath: section))
    try fixtures.run(["objcopy", "--update-section", ".debug_line=\(section)", file])
    try fixtures.run(["objcopy", "--compress-debug-sections=zlib", file])
    #expect(try fixtures.run(["readelf", "-SW", file]).contains(#/\.debug_line .* C /#))
    let root = Repository.root.path
    let directory = "\(root)/Sources/CSymbols"
    let sources = try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasSuffix(".c") }
    try """
    #include <stdint.h>
    #include <stdio.h>
    int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
    static uint8_t bytes[1 << 20];
    int main(void) { return LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, sizeof bytes, stdin)); }

    """.write(toFile: fixtures.path("read.c"), atomically: true, encoding: .utf8)
    try fixtures.run(
      ["clang", "-g", "-O1", "-fsanitize=address", "-fuse-ld=lld", "-I\(directory)/include"]
        + ["-o", "read", "read.c", "\(root)/Tests/Fuzz/Symbols/symbols.c"]
        + sources.map { "\(directory)/\($0)" })
    try fixtures.run(["sh", "-c", "ASAN_OPTIONS=detect_leaks=0 exec ./read <\(file)"])
  }

  /// `make fuzz` looks further.
  @Test func seedsOfTheFuzzer() throws {
    let directory = Repository.root.appending(path: "Tests/Fuzz/seeds/symbols")
    let seeds = try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil)
    #expect(!seeds.isEmpty)
    for seed in seeds {
      let symbolizer = Symbolizer(debugRoots: [])
      let module = ModuleIdentity(path: seed.path, buildID: [])
      let names = (0..<UInt64(0x4000)).flatMap { address in
        symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous()).frames
      }
      #if arch(x86_64)  // What the seeds are programs for.
      #expect(names.contains { $0.symbol != nil }, "\(seed.lastPathComponent)")
      #else
      #expect(names.isEmpty)
      #endif
    }
  }

  @Test func notAFile() throws {
    let symbolizer = Symbolizer(debugRoots: [])
    let fifo = fixtures.path("fifo")
    #expect(mkfifo(fifo, 0o600) == 0)
    let long = "/" + String(repeating: "x", count: 100_000)
    for path in [fifo, "/dev/zero", "/proc/self/mem", fixtures.directory.path, "", long, "a\nb"] {
      let module = ModuleIdentity(path: path, buildID: [])
      let answer = symbolizer.symbolize(module: module, address: 4096, deadline: SymbolClock.generous())
      #expect(answer.frames == [])
      #expect(answer.problem != nil)
    }
    let wide = ModuleIdentity(path: "/dev/null", buildID: [UInt8](repeating: 7, count: 5000))
    #expect(symbolizer.symbolize(module: wide, address: 0, deadline: SymbolClock.generous()).frames == [])
  }

  @Test func hostileNames() {
    var random = Random(state: 42)
    let alphabet = Array("$sS_ZNKSt0123456789abcTUYQFCVOxyzGABCD<>(),.: -[]".utf8)
    for _ in 0..<20_000 {
      let start = ["$s", "_Z", ""].randomElement(using: &random)!
      let bytes = (0..<Int.random(in: 0...60, using: &random)).map { _ in alphabet.randomElement(using: &random)! }
      let name = start + String(decoding: bytes, as: UTF8.self)
      let full = Demangler.demangle(name) ?? name
      _ = ShortSymbol.shorten(full, linkageName: name)
      _ = ShortSymbol.shorten(name, linkageName: "$s")
      _ = ShortSymbol.shorten(name, linkageName: "_Z")
      _ = HostCode.owner(modulePath: name, isExecutable: false, linkageName: name, symbol: full)
    }
    for deep in [String(repeating: "(", count: 9000), String(repeating: "static ", count: 9000)] {
      _ = ShortSymbol.shorten(deep, linkageName: "$s")
    }
    #expect(Demangler.demangle("$s" + String(repeating: "1a", count: 9000)) == nil)
  }
}
