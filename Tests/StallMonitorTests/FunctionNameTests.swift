import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// One function has one name, however its compiler copies or splits it, and a name costs little.
@Suite struct FunctionNameTests {
  let fixtures: SymbolFixtures

  init() throws {
    fixtures = try SymbolFixtures()
    #expect(Symbolizer.load() == nil)
  }

  // MARK: Cost

  /// `visit<P<P<…>, P<…>>>` in C++ and in Swift: the text doubles with each level.
  private static func nested(_ depth: Int) -> (cxx: String, swift: String) {
    let levels = 1..<depth
    let cxx =
      "_Z5visitI1PI" + String(repeating: "S0_I", count: depth - 1) + "iiE" + levels.map { "S\($0)_E" }.joined()
      + "EvPT_"
    let letters = levels.map { String(UnicodeScalar(UInt8(ascii: "D") + UInt8($0))) }
    let swift =
      "$s1b5visityyxmlFAA1PVy" + String(repeating: "ADy", count: depth - 1) + "S2iG"
      + letters.map { "A\($0)G" }.joined() + "_Ttg5"
    return (cxx, swift)
  }

  @Test(arguments: 1...6) func nestedNameIsDemangled(depth: Int) throws {
    let (cxx, swift) = Self.nested(depth)
    let inCxx = try #require(Demangler.demangle(cxx))
    #expect(inCxx.hasPrefix("void visit<P<"))
    // Both the argument and the parameter have a name of each level, in both halves of the one above.
    #expect(inCxx.count { $0 == "P" } == 2 * ((1 << depth) - 1), "\(inCxx)")
    #expect(try #require(Demangler.demangle(swift)).hasPrefix("generic specialization <b.P<"))
  }

  /// At depth 20 these take megabytes and seconds, at depth 30 all memory.
  @Test(arguments: [20, 22]) func nameThatWouldTakeMegabytesStaysMangled(depth: Int) {
    let (cxx, swift) = Self.nested(depth)
    #expect(Demangler.demangle(cxx) == nil)
    #expect(Demangler.demangle(swift) == nil)
    // And so do parts of it.
    #expect(Demangler.demangle(cxx + ".cold") == nil)
  }

  /// `call<int, int, …>(P<T>…)`: the pattern's text comes once for each element of the pack.
  private static func expanded(elements: Int, pattern: Int) -> String {
    "_Z4callIJ" + String(repeating: "i", count: elements) + "EEvDp" + String(repeating: "1PI", count: pattern) + "T_"
      + String(repeating: "E", count: pattern)
  }

  @Test func expandedPackIsDemangledUnlessItMightTakeTooLong() throws {
    let short = try #require(Demangler.demangle(Self.expanded(elements: 4, pattern: 3)))
    #expect(short.hasSuffix("(P<P<P<int> > >, P<P<P<int> > >, P<P<P<int> > >, P<P<P<int> > >)"), "\(short)")
    #expect(Demangler.demangle(Self.expanded(elements: 500, pattern: 100)) == nil)
    // Each element is looked for among those before it.
    #expect(Demangler.demangle("_Z4callIJ" + String(repeating: "i", count: 1500) + "EEvDpT_") == nil)
  }

  /// A name in a symbol table is cut where it is too long, and not in a character.
  @Test(arguments: ["f", "ff"]) func longNameIsCut(start: String) throws {
    let long = start + String(repeating: "é", count: 40_000)
    let source = """
      __attribute__((noinline, used)) int run(int n) __asm__("\(long)");
      int run(int n) { return n * 7; }
      int main(int n, char **v) { (void)v; return run(n); }
      """
    let file = try fixtures.clang(source, ["-O1"])
    let name = try #require(try stack(file, fixtures.address(long, in: file)).last?.symbol)
    #expect(long.hasPrefix(name))
    #expect((65_533...65_536).contains(name.utf8.count), "\(name.utf8.count)")
  }

  /// Many references are no harm by themselves.
  @Test func nameWithManyReferencesIsDemangled() throws {
    let name = "_Z4callRKSt3mapISsSt6vectorISsSaISsEESt4lessISsESaISt4pairIKSsS2_EEES9_S9_S9_S9_S9_S9_S9_"
    #expect(try #require(Demangler.demangle(name)).count > 1000)
  }

  /// DWARF has the function's name where the demangler gives none: of a constraint, and of a long name.
  @Test(
    .enabled(if: Program.installed("g++") != nil, "g++ is missing (Debian: g++)"),
    arguments: ["clang++", "g++"])
  func nameThatIsNotDemangledComesFromDebugInformation(compiler: String) throws {
    let long = String(repeating: "Long", count: 300)
    let source = """
      template <typename T> concept Small = sizeof(T) < 16;
      template <typename T> __attribute__((noinline)) int take(T value) requires Small<T> && (sizeof(T) > 1) {
        return value * 3;
      }
      struct \(long) { int n; };
      namespace app { namespace {
        struct Server {
          __attribute__((noinline)) int take_inside(\(long) a);
        };
        int Server::take_inside(\(long) a) { return a.n * 7; }
      } }
      namespace app {
        __attribute__((noinline)) int take_long(\(long) a) { return Server().take_inside(a) * 5; }
      }
      int main(int n, char **) { return take(n) + app::take_long({n}); }

      """
    try source.write(toFile: fixtures.path("names.cpp"), atomically: true, encoding: .utf8)
    try fixtures.run([compiler, "-std=c++20", "-g", "-O1", "-Wl,--build-id=sha1", "-o", "names", "names.cpp"])
    let names = [
      ("take", "take"), ("take_long", "app::take_long"),
      ("take_inside", "app::(anonymous namespace)::Server::take_inside"),
    ]
    for (name, qualified) in names {
      let function = try #require(
        try fixtures.functions(fixtures.path("names")).first { $0.name.contains("\(name.count)\(name)") })
      let symbol = try #require(try stack(fixtures.path("names"), function.address).last?.symbol)
      // GCC 12 does not mangle a constraint, so its name of `take` is demangled.
      #expect(symbol == qualified || (name == "take" && symbol.contains(name) && !symbol.hasPrefix("_Z")), "\(symbol)")
    }
  }

  // MARK: Copies and parts

  private func symbol(_ linkageName: String) -> String {
    let full = Demangler.demangle(linkageName) ?? linkageName
    return ShortSymbol.withoutDisguise(full, linkageName: linkageName)
  }

  @Test(arguments: [
    ("_ZN3app8checksumEPll", "app::checksum(long*, long)"),
    ("_ZN3app8checksumEPll.avx2", "app::checksum(long*, long)"),
    ("_ZN3app8checksumEPll.arch_x86-64-v4.0", "app::checksum(long*, long)"),
    ("_ZL7compareii.__uniq.253427137386282379346929024138178271", "compare(int, int)"),
    ("_ZN3appL6handleEi.resume", "app::handle(int)"),
    ("_ZN3app6handleEPZNS_6handleEiE20_ZN3app6handleEi.Frame.actor", "app::handle(int)"),
    ("_ZN3app6handleEPZNS_6handleEiE20_ZN3app6handleEi.Frame.destroy", "app::handle(int)"),
    ("$s1p1QV1kSaySiGvM.resume.0", "p.Q.k.modify : Swift.Array<Swift.Int>"),
    // In a name of Rust, dots are in identifiers.
    (
      "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE.llvm.1234",
      "_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$::fmt::h0123456789abcdef"
    ),
    ("sum.avx2.0", "sum"), ("sum.__uniq.2534271373862823", "sum"),
    ("async_Main", "async_Main"), ("async_MainTY1_", "async_Main"), ("async_MainTQ0_", "async_Main"),
    // Names that somebody wrote.
    ("async_MainFrame", "async_MainFrame"), ("async_MainTYpe_", "async_MainTYpe_"), ("main.sum", "main.sum"),
    ("main.sum.func1", "main.sum.func1"),
  ])
  func copyOrPartHasTheFunctionsName(linkageName: String, name: String) {
    #expect(symbol(linkageName) == name)
  }

  /// Names what is at addresses of a program.
  private func reader(of file: String) throws -> (UInt64) -> [StackFrame] {
    let (symbolizer, module) = (Symbolizer(debugRoots: []), try fixtures.module(file))
    return { address in
      let names = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous())
      return StackFrame(module: file, offset: address).named(names.frames, isExecutable: true)
    }
  }

  private func stack(_ file: String, _ address: UInt64) throws -> [StackFrame] { try reader(of: file)(address) }

  /// Without debug information, only the function itself shows that `sum.avx2` is none of another language.
  @Test func copyOfAFunctionInCIsTheFunction() throws {
    let source = """
      __attribute__((noinline, used)) int sum(int n) { return n * 3; }
      __attribute__((noinline, used)) int fast(int n) __asm__("sum.avx2");
      int fast(int n) { return n * 5; }
      __attribute__((noinline, used)) int run(int n) __asm__("parse.run");
      int run(int n) { return n * 7; }
      int main(int n, char **v) { (void)v; return sum(n) + fast(n) + run(n); }
      """
    let file = try fixtures.clang(source, ["-O1"])
    func stack(at name: String) throws -> [StackFrame] { try self.stack(file, fixtures.address(name, in: file)) }
    #expect(try stack(at: "sum.avx2").map(\.symbol) == ["sum"])
    #expect(
      try Culprit.fingerprint(of: stack(at: "sum.avx2")) == Culprit.fingerprint(of: stack(at: "sum")))
    #expect(try stack(at: "parse.run").map(\.symbol) == ["parse.run"])
  }

  /// What runs when a coroutine is resumed is the coroutine; GCC marks it as made by the compiler.
  @Test(
    .enabled(if: Program.installed("g++") != nil, "g++ is missing (Debian: g++)"),
    arguments: ["g++", "clang++"], ["-O0", "-O2"])
  func resumedCoroutineIsResponsible(compiler: String, level: String) throws {
    let source = """
      #include <coroutine>
      #include <string>
      struct Task {
        struct promise_type {
          Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
          std::suspend_always initial_suspend() noexcept { return {}; }
          std::suspend_always final_suspend() noexcept { return {}; }
          void return_void() {}
          void unhandled_exception() {}
        };
        std::coroutine_handle<promise_type> handle;
      };
      struct Text { std::string text; };
      volatile int spins;
      Task login(int n) { for (int i = 0; i < n; i++) spins = spins + 1; co_return; }
      Task upload(int n) { for (int i = 0; i < n; i++) spins = spins + 2; co_return; }
      __attribute__((noinline)) void resume(Task task) { task.handle.resume(); task.handle.destroy(); }
      int main(int n, char **) {
        resume(login(n));
        resume(upload(n));
        Text *text = new Text{"a text that is longer than short ones are"};
        Text copy(*text);
        delete text;
        return (int)copy.text.size();
      }

      """
    try source.write(toFile: fixtures.path("coroutine.cpp"), atomically: true, encoding: .utf8)
    try fixtures.run(
      [compiler, "-std=c++20", "-g", level, "-Wl,--build-id=sha1", "-o", "coroutine", "coroutine.cpp"])
    let file = fixtures.path("coroutine")
    let functions = try fixtures.functions(file)
    for name in ["login", "upload"] {
      let part = try #require(
        functions.first { $0.name.hasPrefix("_Z") && $0.name.contains(name) && $0.name.contains(/\.(actor|resume)$/) })
      // Behind the calls that were inlined there.
      let frame = try #require(try stack(file, part.address + part.size / 2).last)
      #expect(frame.symbol == "\(name)(int)")
      #expect(frame.shortSymbol == name)
      #expect(Culprit.fingerprint(of: [frame]) != nil, "\(frame) is responsible")
    }
    // Nobody wrote the destructor.
    if let implicit = functions.first(where: { $0.name == "_ZN4TextD2Ev" }), compiler == "g++" {
      #expect(try #require(try stack(file, implicit.address).last).isCompilerGenerated)
    }
  }

  // MARK: Assembly

  /// Instructions of assembly that mean the same to each processor, and labels that nobody gave a type.
  private static let assembly = """
    __asm__(".text\\n"
            ".globl typed\\n.type typed, %function\\ntyped:\\n nop\\n nop\\n"
            ".globl plain\\nplain:\\n nop\\nplain.loop:\\n nop\\n.again:\\n nop\\n"
            "local:\\n nop\\n nop\\n"
            ".globl sized\\n.type sized, %function\\nsized:\\n nop\\nwithin:\\n nop\\n nop\\n.size sized, . - sized\\n");
    int main(void) { return 0; }

    """

  @Test(arguments: [[], ["-g"]]) func labelOfAssemblyNamesItsFunction(flags: [String]) throws {
    let file = try fixtures.clang(Self.assembly, flags)
    let lines = try fixtures.run(["nm", file]).split(separator: "\n").map { $0.split(separator: " ") }
    let places = Dictionary(
      lines.compactMap { $0.count == 3 ? (String($0[2]), UInt64($0[0], radix: 16) ?? 0) : nil },
      uniquingKeysWith: { first, _ in first })
    let expected = [
      "typed": "typed", "plain": "plain", "plain.loop": "plain", ".again": "plain", "local": "local", "sized": "sized",
      "within": "sized",
    ]
    for (label, function) in expected {
      let address = try #require(places[label], "\(label)")
      #expect(try stack(file, address).map(\.symbol) == [function], "\(label)")
    }
  }

  // MARK: Debug information in other files

  /// The functions are described in a file that is not there; the lines are here.
  @Test(arguments: ["-gdwarf-4", "-gdwarf-5"], ["-O0", "-O2"])
  func splitDebugInformationNamesTheFunction(version: String, level: String) throws {
    try fixtures.run(["mkdir", "-p", "tool/include/c++/12", "src"])
    let header = """
      static inline __attribute__((always_inline)) void spin(volatile int *p) {
        for (int i = 0; i < 9; i++) *p = *p * 3 + 1;
      }
      __attribute__((noinline, used)) static void turn(volatile int *p) { *p = *p * 5; spin(p); }
      """
    let source = """
      #include "../tool/include/c++/12/spin.h"
      __attribute__((noinline)) void load(volatile int *p) {
        int before = *p;
        spin(p);
        *p += before;
        turn(p);
      }
      int main(int n, char **v) { (void)v; volatile int x = n; load(&x); return x; }
      """
    try header.write(toFile: fixtures.path("tool/include/c++/12/spin.h"), atomically: true, encoding: .utf8)
    try source.write(toFile: fixtures.path("src/a.c"), atomically: true, encoding: .utf8)
    try fixtures.run(
      [
        "clang", "-g", version, "-gsplit-dwarf", "-fno-split-dwarf-inlining", level, "-c", "-o", "a.o",
        fixtures.path("src/a.c"),
      ])
    try fixtures.run(["clang", "-Wl,--build-id=sha1", "-o", "split", "a.o"])
    let file = fixtures.path("split")
    let stack = try reader(of: file)
    for (name, owner) in [("load", CodeOwner.host), ("turn", .runtime)] {
      let function = try #require(try fixtures.functions(file).first { $0.name == name })
      var files: Set<String?> = []
      for address in function.address..<function.address + function.size {
        let frames = stack(address)
        #expect(frames.map(\.symbol) == [name])
        #expect(frames.map(\.owner) == [owner], "\(frames)")
        files.formUnion(frames.map { $0.file.map { String($0.split(separator: "/").last!) } })
      }
      // No line of a function that was inlined there.
      #expect(files.contains(owner == .host ? "a.c" : "spin.h"))
      #expect(!files.contains(owner == .host ? "spin.h" : "a.c"))
    }
  }

  /// dwz has moved names into a file that lies beside the program, and the program is reached through a link.
  @Test(.enabled(if: Program.installed("dwz") != nil, "dwz is missing (Debian: dwz)"))
  func commonFileOfDwzIsFoundBesideTheProgram() throws {
    for level in ["-O1", "-O2"] {
      _ = try fixtures.clang(SymbolizerTests.cSource, ["-g", "-gdwarf-4", level], name: "program\(level)")
    }
    try fixtures.run(["dwz", "-m", "common.debug", "program-O1", "program-O2"])
    try fixtures.run(["mkdir", "elsewhere"])
    try fixtures.run(["ln", "-s", "../program-O2", "elsewhere/link"])
    let file = fixtures.path("program-O2")
    let address = try fixtures.address("hidden_outer", in: file)
    let direct = try stack(file, address)
    #expect(direct.last?.symbol == "hidden_outer")
    #expect(direct.allSatisfy { $0.symbol != nil && $0.file != nil })
    let linked = try stack(fixtures.path("elsewhere/link"), address)
    #expect(linked.map(\.symbol) == direct.map(\.symbol))
  }

  /// The 64-bit format of debug information, which files of more than 4 GiB need.
  @Test(arguments: ["-gdwarf-4", "-gdwarf-5"]) func readsTheWideFormat(version: String) throws {
    let wide = try fixtures.clang(SymbolizerTests.cSource, ["-g", version, "-O2", "-gdwarf64"], name: "wide")
    let narrow = try fixtures.clang(SymbolizerTests.cSource, ["-g", version, "-O2"], name: "narrow")
    let function = try #require(try fixtures.functions(wide).first { $0.name == "hidden_outer" })
    let start = try fixtures.address("hidden_outer", in: narrow)
    var lines: Set<Int> = []
    let (wideStack, narrowStack) = (try reader(of: wide), try reader(of: narrow))
    for offset in 0..<function.size {
      let (ours, others) = (wideStack(function.address + offset), narrowStack(start + offset))
      #expect(ours.map(\.symbol) == others.map(\.symbol))
      #expect(ours.map(\.line) == others.map(\.line))
      lines.formUnion(ours.compactMap(\.line))
    }
    #expect(lines.count > 3)
  }
}

extension WatchedHosts {
  /// `ld-linux-x86-64.so.2 ./program`: the kernel has executed the loader, and the program is another file.
  @Suite(.serialized, .takingTurns)
  struct LoaderTests {
    @Test func programThatTheLoaderWasAskedToRunIsNamed() throws {
      let program = try Victim.Build.usual.executable("StallVictim")
      let words = try Program.run("/usr/bin/env", ["readelf", "--string-dump=.interp", program.path]).output
      let loader = try #require(words.split(whereSeparator: \.isWhitespace).last.map(String.init))
      let victim = try Victim.run(
        "sleep", milliseconds: TestMachine.stall(500), environment: ["STALLMONITOR_THRESHOLD": "100ms"],
        through: [loader])
      let direct = try Victim.run(
        "sleep", milliseconds: TestMachine.stall(500), environment: ["STALLMONITOR_THRESHOLD": "100ms"])
      #expect(victim.reports.last?.culprit != nil)
      #expect(victim.reports.last?.culprit == direct.reports.last?.culprit)
      #expect(
        victim.reports.last?["process", "executable", "path"] as? String
          == direct.reports.last?["process", "executable", "path"] as? String)
    }
  }
}
