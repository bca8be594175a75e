import StallReport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// Functions of the same code, which Swift's optimizer merges under the name of one of them.
@Suite struct MergedCodeTests {
  private static func frames(_ mangled: String) -> [StackFrame] {
    Symbolizer.load()
    let symbol = Demangler.demangle(mangled) ?? mangled
    let name = SymbolizedFrame(
      symbol: symbol, shortSymbol: ShortSymbol.shorten(symbol, linkageName: mangled), linkageName: mangled, file: nil,
      line: nil, inlined: false, isCompilerGenerated: ShortSymbol.isCompilerGenerated(symbol, linkageName: mangled))
    return StackFrame(module: "/app", buildID: "aa", offset: 7).named([name], isExecutable: true)
  }

  @Test func callerIsResponsibleAndTheFrameIsMarked() {
    let merged = Self.frames("$s3App5firstyyFTm")
    #expect(merged.map(\.symbol) == ["merged App.first() -> ()"])
    #expect(merged.map(\.shortSymbol) == ["merged first()"])
    let stack = merged + Self.frames("$s3App6handleyyF")
    #expect(Culprit.frame(of: stack)?.symbol == "App.handle() -> ()")
    #expect(Culprit.fingerprint(of: stack) == Culprit.fingerprint(of: Self.frames("$s3App6handleyyF")))
    var tree = CallTree()
    for _ in 0..<3 { tree.add(stack, weight: 1) }
    #expect(tree.certainCommonFrame.frame?.symbol == "App.handle() -> ()")
  }

  /// It says that it is merged; the function of that name has another fingerprint.
  @Test func withoutACallerTheMergedCodeItselfIsNamed() {
    let stack = Self.frames("$s3App5firstyyFTm")
    #expect(Culprit.frame(of: stack)?.symbol == "merged App.first() -> ()")
    #expect(Culprit.fingerprint(of: stack) != nil)
    #expect(Culprit.fingerprint(of: stack) != Culprit.fingerprint(of: Self.frames("$s3App5firstyyF")))
    #expect(Culprit.repeatKey(of: stack) != nil)
  }

  private static let source = """
    #if canImport(Glibc)
    import Glibc
    #endif
    // The program has one thread.
    nonisolated(unsafe) var sink = 0
    @inline(never) func leaf(_ n: Int, _ text: String) { usleep(UInt32(n % 7)); sink &+= n + text.utf8.count }
    @inline(never) func first() { for i in 0..<100 { leaf(i, "first"); leaf(i * 3, "x"); leaf(i * 5, "y"); leaf(i * 7, "z"); leaf(11, "w") } }
    @inline(never) func second() { for i in 0..<100 { leaf(i, "other"); leaf(i * 3, "x"); leaf(i * 5, "y"); leaf(i * 7, "z"); leaf(11, "w") } }
    if CommandLine.arguments.count == 1 { first() } else { second() }
    if CommandLine.arguments.count == 2 { first() } else { second() }

    """

  /// DWARF gives the common code to the first function, without a word.
  @Test func optimizerSaysOnlyInTheSymbolTable() throws {
    let fixtures = try SymbolFixtures()
    try #require(Symbolizer.load() == nil)
    let file = try fixtures.swiftc(Self.source, ["-O", "-g"])
    let merged = try #require(try fixtures.functions(file).first { $0.name.hasSuffix("yyFTm") })
    let module = try fixtures.module(file)
    let symbolizer = Symbolizer(debugRoots: [])
    for address in stride(from: merged.address, to: merged.address + merged.size, by: 5) {
      let names = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous()).frames
      let stack = StackFrame(module: file, offset: address).named(names, isExecutable: true)
      #expect(!stack.contains { $0.isHostCode }, "\(stack.map(\.name))")
      #expect(stack.last?.symbol?.hasPrefix("merged victim.") == true)
    }
    let leaf = try #require(try fixtures.functions(file).first { $0.name.hasPrefix("$s6victim4leaf") })
    let names = symbolizer.symbolize(module: module, address: leaf.address, deadline: SymbolClock.generous()).frames
    #expect(names.last?.isMerged == false)
  }
}
