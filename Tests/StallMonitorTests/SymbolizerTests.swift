import Foundation
import StallReport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// The symbolizer against programs compiled here, judged by the toolchain's llvm-symbolizer.
@Suite struct SymbolizerTests {
  let fixtures: SymbolFixtures

  init() throws {
    fixtures = try SymbolFixtures()
    #expect(Symbolizer.load() == nil)
  }

  static let cSource = """
    #include <stdlib.h>
    #include <string.h>
    struct pair { int a; long b; char text[16]; };
    static inline __attribute__((always_inline)) int inner(struct pair *p, int n) {
      int sum = 0;
      for (int i = 0; i < n; i++)
        sum += p->text[i % 16] * i;
      return sum;
    }
    static inline __attribute__((always_inline)) int middle(struct pair *p, int n) {
      if (n > 3)
        return inner(p, n) + inner(p, n / 2);
      return 1;
    }
    static __attribute__((noinline)) int hidden_outer(struct pair *p, int n) {
      return middle(p, n) * middle(p, n + 1) + atoi(p->text);
    }
    int main(int count, char **arguments) {
      struct pair p;
      memset(&p, count, sizeof p);
      return hidden_outer(&p, count) == 12345;
    }
    """

  static let swiftSource = """
    struct Point<Value: Numeric> { var x: Value; var y: Value; func dot(_ o: Point) -> Value { x * o.x + y * o.y } }
    @inline(never) func heavy(rounds: Int, _ body: (Int) -> Int) -> Int {
      var total = 0
      for i in 0..<rounds { total &+= body(i) ^ total }
      return total
    }
    @inline(__always) func small(_ n: Int) -> Int { n &* 31 &+ 7 }
    final class Engine {
      var names: [String: Int] = [:]
      private func turn(_ n: Int) -> Int {
        names["k\\(n)"] = n
        return heavy(rounds: n) { small($0) &+ self.names.count }
      }
      func run() -> Int { (0..<10).map { turn($0) }.reduce(0, +) }
    }
    func later(_ n: Int) async -> Int { await Task.yield(); return small(n) }
    let point = Point(x: 1.5, y: 2.0)
    print(Engine().run(), point.dot(point), await later(3))
    """

  /// Compares every `step`-th byte of the functions that `wanted` accepts with the judge.
  private func agree(
    with file: String, step: UInt64 = 1, limit: Int = 4000, sourceLocation: SourceLocation = #_sourceLocation,
    wanted: (String) -> Bool
  ) throws {
    let functions = try fixtures.functions(file).filter { wanted($0.name) && $0.size > 0 }
    let all = functions.flatMap { Array(stride(from: $0.address, to: $0.address + $0.size, by: Int(step))) }
    let addresses = Array(all.prefix(limit))
    #expect(!addresses.isEmpty, sourceLocation: sourceLocation)
    let symbolizer = Symbolizer()
    let module = try fixtures.module(file)
    var differing: [String] = []
    for (address, judged) in zip(addresses, try fixtures.judge(file, addresses)) {
      let answer = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous())
      let ours = answer.frames.map { JudgedFrame(function: $0.linkageName, file: $0.file, line: $0.line) }
      if ours.map(\.function) != judged.map(\.function) || ours.map(\.line) != judged.map(\.line)
        || zip(ours, judged).contains(where: { !Self.haveSameFile($0, $1) })
      {
        differing.append("\(String(address, radix: 16)): \(ours) and not \(judged)")
      }
    }
    let summary = "\(differing.count) of \(addresses.count): \(differing.prefix(3))"
    #expect(differing.isEmpty, "\(summary)", sourceLocation: sourceLocation)
  }

  /// The judge joins paths as they are, "./" included.
  private static func normal(_ path: String) -> String { URL(fileURLWithPath: path).standardized.path }

  /// Where it knows no line, the judge may name a file of the symbol table's, which is another.
  private static func haveSameFile(_ ours: JudgedFrame, _ judged: JudgedFrame) -> Bool {
    ours.file.map(normal) == judged.file.map(normal) || (ours.file == nil && judged.line == nil)
  }

  @Test(arguments: ["-gdwarf-4", "-gdwarf-5"], ["-O0", "-O2"])
  func agreesWithTheJudgeOnC(version: String, level: String) throws {
    let file = try fixtures.clang(Self.cSource, ["-g", version, level])
    try agree(with: file) { ["hidden_outer", "main", "inner", "middle"].contains($0) }
  }

  @Test(arguments: [["-Onone", "-g"], ["-O", "-g"], ["-O", "-g", "-dwarf-version=4"]])
  func agreesWithTheJudgeOnSwift(flags: [String]) throws {
    let file = try fixtures.swiftc(Self.swiftSource, flags)
    try agree(with: file, step: 3) { $0.hasPrefix("$s6victim") }
  }

  @Test(arguments: ["-gz=zlib", "-gz=none"])
  func readsCompressedSections(flag: String) throws {
    let file = try fixtures.clang(Self.cSource, ["-g", "-O2", flag])
    try agree(with: file) { ["hidden_outer", "main"].contains($0) }
  }

  @Test func inlinedFramesComeInnermostFirst() throws {
    let file = try fixtures.clang(Self.cSource, ["-g", "-O2"])
    let symbolizer = Symbolizer()
    let module = try fixtures.module(file)
    let function = try #require(try fixtures.functions(file).first { $0.name == "hidden_outer" })
    let deepest = (function.address..<function.address + function.size)
      .map { symbolizer.symbolize(module: module, address: $0, deadline: SymbolClock.generous()).frames }
      .max { $0.count < $1.count }
    let frames = try #require(deepest)
    #expect(frames.map(\.linkageName) == ["inner", "middle", "hidden_outer"])
    #expect(frames.map(\.inlined) == [true, true, false])
    #expect(frames.allSatisfy { $0.file == fixtures.path("victim.c") && $0.line != nil })
  }

  static let inlinedCallerSource = """
    @inline(never) @_optimize(none) func use<Value>(_ value: Value) {}
    @inline(never) func load(_ n: Int) async throws -> Int { await Task.yield(); return n }
    @inline(never) func apply(_ body: @Sendable (Int) async throws -> Int) async throws -> Int {
      let found = try await body(5)
      use(found)
      return found
    }
    @inline(__always) func route(_ n: Int) async throws {
      let text = "\\(n)"
      use(try await apply { use(text); return try await load($0) })
    }
    @inline(never) func handle(_ n: Int) async throws {
      if n > 2 { use(try await load(n)) } else { try await route(n) }
      use(n)
    }
    try await handle(CommandLine.arguments.count)
    """

  /// What follows the call has no line, so no row of the line table says where the function's own code begins.
  @Test func inlinedCallerIsFoundWhereAnAsyncFunctionContinuesWithoutALine() throws {
    let file = try fixtures.swiftc(Self.inlinedCallerSource, ["-O", "-g", "-swift-version", "6"])
    let symbolizer = Symbolizer()
    let module = try fixtures.module(file)
    // One part for each `await` in it, the inlined one included.
    let callers = try fixtures.functions(file).filter { $0.name.hasPrefix("$s6victim6handleyySiYaKFTQ") }
      .map { symbolizer.symbolize(module: module, address: $0.address, deadline: SymbolClock.generous()).frames }
    #expect(callers.count == 2)
    #expect(callers.filter { $0.contains { $0.symbol?.contains("route(") == true } }.count == 1, "\(callers)")
    // The line of the call, not that of the function.
    #expect(callers.allSatisfy { $0.last?.line == 13 }, "\(callers)")
  }
}
