import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// Names as people read them, and whose code they are.
@Suite struct SymbolNamesTests {
  struct Example: Sendable, CustomTestStringConvertible {
    var mangled: String
    var short: String
    var generated = false
    var testDescription: String { short }
    init(_ mangled: String, _ short: String, generated: Bool = false) {
      (self.mangled, self.short, self.generated) = (mangled, short, generated)
    }
  }

  static let examples: [Example] = [
    Example("$s6stalld4DemoC7compute6roundsS2i_tF", "Demo.compute(rounds:)"),
    Example("$s6stalld4DemoC7compute6roundsS2i_tFSiycfU_", "closure #1 in Demo.compute(rounds:)"),
    Example(
      "$s6stalld4DemoC7compute6roundsS2i_tFSiycfU_TA", "partial apply for closure #1 in Demo.compute(rounds:)",
      generated: true),
    Example("$s6victim5heavy6rounds_S2i_S2iXEtFTf4ng_n", "heavy(rounds:_:)"),
    Example(
      "$s6victim5heavy6rounds_S2i_S2iXEtF72$s6victim6EngineC4turn33_EBE705A0B0723B460C734EF1684C7D3BLLyS2iFS2iXEfU_AA0E0CTf1nc_nTf4ng_n",
      "heavy(rounds:_:)"),
    Example("$s6victim6EngineC4turn33_EBE705A0B0723B460C734EF1684C7D3BLLyS2iF", "Engine.turn(_:)"),
    Example("$s6victim6EngineC5namesSDySSSiGvpfi", "variable initialization expression of Engine.names"),
    Example("$s6victim6EngineCfD", "Engine.__deallocating_deinit"),
    Example("$s6victim6EngineCACycfc", "Engine.init()"),
    Example("$sIetH_yts5Error_pIegHrzo_TR", "reabstraction thunk", generated: true),
    Example("$sIetH_yts5Error_pIegHrzo_TRTA", "partial apply for reabstraction thunk", generated: true),
    Example("$sIetH_yts5Error_pIegHrzo_TRTATQ0_", "partial apply for reabstraction thunk", generated: true),
    Example("$s1p5lateryS2iYaF", "later(_:)"),
    Example("$s1p5lateryS2iYaFTQ0_", "later(_:)"),
    Example("$s1p5lateryS2iYaFTY1_", "later(_:)"),
    Example("$s1p1QVAA1PA2aDP2goyS3icFTW", "protocol witness for P.go(_:) in conformance Q", generated: true),
    Example("$s1p1QV1kSaySiGvg", "Q.k.getter"),
    Example("$s1p1QV1kSaySiGvM.resume.0", "Q.k.modify"),
    Example("$s1p5PointVMa", "type metadata accessor for Point", generated: true),
    Example("$s1p5PointV1x1yACyxGx_xtcfC", "Point.init(x:y:)"),
    Example("$sSD17dictionaryLiteralSDyxq_Gx_q_td_tcfCSS_SiTt0g5", "Dictionary.init(dictionaryLiteral:)"),
    Example("$sSa15reserveCapacityyySiFSi_Tg5", "Array.reserveCapacity(_:)"),
    Example("$s10Foundation4DataV5write2to7optionsyAA3URLV_So20NSDataWritingOptionsVtKF", "Data.write(to:options:)"),
    Example("$sSS4mainE6shoutySSyF", "String.shouty()"),
    Example("$s4main1SVyS2icig", "S.subscript.getter"),
    Example("$s4main2eeoiySbAA1SV_ADtFZ", "static ==(_:_:)"),
    Example("$s4main1SV2eeoiySbAC_ACtFZ", "static S.==(_:_:)"),
    Example("$s4main3fooyyFyycfU_TA", "partial apply for closure #1 in foo()", generated: true),
    Example("$s4main3fooyyF3barL_yySiF", "bar #1 (_:) in foo()"),
    Example("$s4main1CC1xSivW", "C.x.didset"),
    Example("$s1p6config_WZ", "one-time initialization function for config"),
    Example("$s1p6configSSvau", "config.unsafeMutableAddressor"),
    Example("_ZN4host6Engine4turnEi", "host::Engine::turn"),
    Example("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector::push_back"),
    Example("_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work"),
    Example("_ZNK4host6EngineclEi", "host::Engine::operator()"),
    Example("_ZNK7genericMUlT_E_clImEEDaS_", "generic"),
    Example("_ZZ4mainENKUlvE_clEv", "main"),
    Example("_ZN4hostltERKNS_1AES2_", "host::operator<"),
    Example("_ZN4host3maxIiEET_S1_S1_", "host::max"),
    Example("main", "main"),
    Example("swift_retain", "swift_retain"),
    Example("async_MainTQ0_", "main.swift (top level)"),
    Example("objectdestroyTm", "objectdestroyTm", generated: true),
    Example("$s", "$s"),
    Example("$s4main99999nonsense", "$s4main99999nonsense"),
  ]

  @Test(arguments: examples) func shortensForPeople(example: Example) {
    Symbolizer.load()
    let full = Demangler.demangle(example.mangled) ?? example.mangled
    #expect(ShortSymbol.shorten(full, linkageName: example.mangled) == example.short, "\(full)")
    #expect(ShortSymbol.isCompilerGenerated(full, linkageName: example.mangled) == example.generated, "\(full)")
  }

  /// Reports have no mangled names: the demangled one says which language it is of.
  @Test(arguments: examples) func shortensReportedNamesAlike(example: Example) {
    Symbolizer.load()
    let full = Demangler.demangle(example.mangled) ?? example.mangled
    let reported = ShortSymbol.withoutDisguise(full, linkageName: example.mangled)
    let isCxx = example.mangled.hasPrefix("_Z")
    #expect(ShortSymbol.shorten(reported) == (isCxx ? reported : example.short), "\(reported)")
    let isInSwift = example.mangled.hasPrefix("$s")
    #expect(ShortSymbol.isCompilerGenerated(reported) == (isInSwift && example.generated), "\(reported)")
  }

  @Test func agreesWithTheToolchainsOwnSimplification() throws {
    let fixtures = try SymbolFixtures()
    let file = try fixtures.swiftc(Self.varied, ["-Onone", "-parse-as-library"])
    let optimized = try fixtures.swiftc(Self.varied, ["-O", "-parse-as-library"], name: "optimized")
    let names = Set(try [file, optimized].flatMap { try fixtures.functions($0).map(\.name) }).filter {
      $0.hasPrefix("$s")
    }
    .sorted()
    #expect(names.count > 100)
    let simplified = try fixtures.run(
      ["swift", "demangle", "--compact", "--simplified"], input: names.joined(separator: "\n") + "\n")
    var differing: [String] = []
    for (name, expected) in zip(names, simplified.split(separator: "\n")) {
      let full = try #require(Demangler.demangle(name))
      // Ours names no types of thunks, no generic parameters, no fixity, and does not mention specializations.
      if expected.contains("thunk for ") || expected.hasPrefix("lazy protocol witness ") || full.contains("metadata")
        || full.contains("outlined")
      {
        continue
      }
      let wanted = expected.replacingOccurrences(of: "specialized ", with: "")
        .replacingOccurrences(of: "merged ", with: "").replacing(/<[A-Z0-9, ]*>(?=[.(])/, with: "")
        .replacingOccurrences(of: " infix(", with: "(")
      let ours = ShortSymbol.shorten(full, linkageName: name)
      if ours != wanted { differing.append("\(full): \(ours), not \(wanted)") }
    }
    #expect(differing.isEmpty, "\(differing.count): \(differing.prefix(12).joined(separator: "\n"))")
  }

  static let varied = """
    import Dispatch
    extension String { func shout(at n: Int) -> String { uppercased() + String(n) } }
    enum Outer<T> { struct Inner<U> {
      func both(_ t: T, u: U) -> (T, U) { (t, u) }
      static func == (a: Inner, b: Inner) -> Bool { true }
      subscript(i: Int) -> Int { get { i } set {} }
      subscript(named n: String) -> Int { n.count }
    } }
    protocol Shape { associatedtype Unit; func area() -> Unit; func other() }
    extension Shape {
      func grow(_ x: Int) {}
      func filter<C: Collection>(_ c: C, by f: (C.Element) throws -> Bool) rethrows -> Int where C.Element: Hashable {
        try c.filter(f).count
      }
    }
    struct Square: Shape { func area() -> Int { 1 }; func other() { grow(3) } }
    @MainActor final class Model {
      var v = 0 { didSet { print(v) } }
      lazy var z: Int = { 3 + v }()
      func bump() { v += 1; func local(x: Int, _ y: [String: (Int, Int?)]) { v += x + y.count }; local(x: 2, [:]) }
      func load() async throws -> Int { try await Task.sleep(nanoseconds: 1); v += 1; return v }
      init() { DispatchQueue.main.async { [weak self] in self?.bump() } }
      convenience init?(text: String) { guard let n = Int(text) else { return nil }; self.init(); v = n }
      deinit { print("bye") }
    }
    actor Store { var q: [Int] = []; func put(_ x: Int) { q.append(x); q.sort { $0 > $1 } } }
    private func secret<T>(_ t: T...) -> Int { t.count }
    let global = secret(1, 2, 3)
    func takes(_ f: @escaping @Sendable (Int) async throws -> String, default d: Int = 4) async throws { _ = try await f(d) }
    infix operator <+>
    func <+> (a: Int, b: Int) -> Int { a &+ b }
    func places(_ x: inout [String: (Int, Int?)], _ c: borrowing String) { x = [:] }
    @main struct Main {
      @MainActor static func main() async throws {
        let m = Model(); m.bump(); _ = try await m.load(); await Store().put(1)
        try await takes { "\\($0)" }
        print("x".shout(at: 1), 1 <+> 2, global, Model(text: "1") as Any)
        [3, 1].forEach { print($0) }
        var i = Outer<Int>.Inner<String>(); i[1] = 3
        print(Square().filter([1]) { $0 > 0 }, i[named: "a"], i.both(1, u: "")); var d: [String: (Int, Int?)] = [:]; places(&d, "")
      }
    }
    """

  /// Copies and parts that GCC and LLVM make of a function are the function.
  @Test(arguments: [
    ("parse", "parse"), ("parse.constprop.0", "parse"), ("parse.isra.0.cold", "parse"), ("parse.part.3", "parse"),
    ("parse.lto_priv.0", "parse"), ("parse.llvm.1234567890", "parse"), ("parse.cold.1", "parse"),
    ("_ZN4host5parseEi.constprop.0.isra.0", "host::parse(int)"), ("_ZN4host5parseEi.cold", "host::parse(int)"),
    ("_ZN4host5parseEi", "host::parse(int)"),
    // Names that somebody wrote, in other languages.
    ("main.parse", "main.parse"), ("main.cold.parse", "main.cold.parse"), (".cold", ".cold"), ("parse.", "parse."),
    ("parse.12", "parse.12"), ("parse.cold.", "parse.cold."),
  ])
  func copyHasTheFunctionsName(linkageName: String, name: String) {
    Symbolizer.load()
    let full = Demangler.demangle(linkageName) ?? linkageName
    #expect(ShortSymbol.withoutDisguise(full, linkageName: linkageName) == name, "\(full)")
    let short = ShortSymbol.shorten(full, linkageName: linkageName)
    #expect(short == (linkageName.hasPrefix("_Z") ? "host::parse" : name))
  }

  /// GCC marks a lambda's call as made by the compiler.
  @Test(
    .enabled(if: Program.installed("g++") != nil, "g++ is missing (Debian: g++)"),
    arguments: ["g++", "clang++"], ["-O0", "-O2"])
  func lambdaIsCodeOfTheSource(compiler: String, level: String) throws {
    let fixtures = try SymbolFixtures()
    try #require(Symbolizer.load() == nil)
    let source = """
      volatile int spins;
      template <typename Action> __attribute__((noinline)) void perform(Action action) { for (;;) action(); }
      auto generic = [](auto step) __attribute__((noinline)) { spins = spins + step; };
      int main() {
        generic(2);
        perform([]() __attribute__((noinline)) { spins = spins + 1; });
        return 0;
      }

      """
    try source.write(toFile: fixtures.path("lambda.cpp"), atomically: true, encoding: .utf8)
    try fixtures.run([compiler, "-g", level, "-Wl,--build-id=sha1", "-o", "lambda", "lambda.cpp"])
    let module = try fixtures.module(fixtures.path("lambda"))
    let functions = try fixtures.functions(module.path)
    let lambdas = functions.filter { $0.name.hasPrefix("_ZZ4mainENK") || $0.name.contains("clIiEE") }
    #expect(lambdas.count == 2)
    let symbolizer = Symbolizer(byteBudget: 64 << 20, debugRoots: [])
    for lambda in lambdas {
      let names = symbolizer.symbolize(module: module, address: lambda.address, deadline: SymbolClock.generous()).frames
      let stack = StackFrame(module: module.path, offset: lambda.address).named(names, isExecutable: true)
      #expect(Culprit.frame(of: stack)?.symbol?.contains("::operator()") == true, "\(stack)")
      #expect(stack.first?.isHostCode == true)
    }
  }

  struct Ownership: Sendable {
    var name: String
    var owner: CodeOwner
    var path = "/srv/app/host"
    var isExecutable = true
    var isLinked = false
  }

  static let ownerships: [Ownership] = [
    Ownership(name: "$s6stalld4DemoC7compute6roundsS2i_tF", owner: .host),
    Ownership(name: "main", owner: .host),
    Ownership(name: "async_MainTQ0_", owner: .host),
    Ownership(name: "", owner: .host),
    Ownership(name: "$s10LoopEngine0A0C3runyyF", owner: .monitor),
    Ownership(name: "$s12StallMonitorAAC5startyyF", owner: .monitor),
    Ownership(name: "csymbols_lookup", owner: .monitor),
    Ownership(
      name: "$ss17_assertionFailure__4file4line5flagss5NeverOs12StaticStringV_SSAHSus6UInt32VtF", owner: .runtime),
    Ownership(name: "$sSa15reserveCapacityyySiFSi_Tg5", owner: .runtime),
    Ownership(name: "$sScT5yieldyyYaFZ", owner: .runtime),
    Ownership(name: "$s10Foundation4DataV5write2to7optionsyAA3URLV_So20NSDataWritingOptionsVtKF", owner: .runtime),
    Ownership(name: "$s20FoundationEssentials4DateV3nowACvgZ", owner: .runtime),
    Ownership(name: "$s8Dispatch0A5QueueC", owner: .runtime),
    Ownership(name: "$s15Synchronization5MutexV", owner: .runtime, isLinked: true),
    Ownership(name: "$sSS4mainE6shoutySSyF", owner: .host),
    Ownership(name: "$sSS10LoopEngineE6shoutySSyF", owner: .monitor),
    Ownership(name: "swift_retain", owner: .runtime, isLinked: true),
    Ownership(name: "_dispatch_main_queue_callback_4CF", owner: .runtime, isLinked: true),
    Ownership(name: "__DISPATCH_WAIT_FOR_QUEUE__", owner: .runtime, isLinked: true),
    Ownership(name: "__CFRunLoopRun", owner: .runtime, isLinked: true),
    Ownership(name: "CFRunLoopRunInMode", owner: .runtime, isLinked: true),
    Ownership(name: "_ZNSt6vectorIiSaIiEE9push_backEOi", owner: .runtime),
    Ownership(name: "_ZNSaIiE8allocateEm", owner: .runtime),
    Ownership(name: "_ZNKSs4sizeEv", owner: .runtime),
    Ownership(name: "_ZNKRSt8optionalIiE5valueEv", owner: .runtime),
    Ownership(name: "_ZZNSt9once_flag18_Prepare_executionC4IZ4mainEUlvE_EERT_ENKUlvE_clEv", owner: .runtime),
    Ownership(name: "_ZL20__gthread_mutex_lockP15pthread_mutex_t", owner: .runtime),
    Ownership(name: "__gthread_mutex_lock", owner: .runtime),
    Ownership(name: "_ZN9__gnu_cxx13new_allocatorIiE8allocateEmPKv", owner: .runtime),
    Ownership(name: "_ZN11__gnu_debug18_Safe_sequence_base13_M_detach_allEv", owner: .runtime),
    Ownership(name: "_ZSt21__unguarded_partitionIPiPFbiiEET_S3_S3_S3_T0_", owner: .runtime),
    Ownership(name: "_ZnwmPv", owner: .runtime),
    Ownership(name: "__clang_call_terminate", owner: .runtime),
    // Swift's runtime, in a program that is linked to it statically.
    Ownership(name: "_ZN5swift34runJobInEstablishedExecutorContextEPNS_3JobE", owner: .runtime, isLinked: true),
    Ownership(
      name: "_ZN7__swift9__runtime4llvm12function_refIFvN5swift16ActiveTaskStatusEEE11callback_fnI1aEEvlS4_",
      owner: .runtime),
    Ownership(
      name: "_ZL20withStatusRecordLockPN5swift9AsyncTaskENS_16ActiveTaskStatusE", owner: .runtime, isLinked: true),
    Ownership(name: "_ZL48swift_task_donateThreadToGlobalExecutorUntilOrigPFbPvES_", owner: .runtime, isLinked: true),
    Ownership(name: "_ZNK5swift10SymbolInfo11getFilenameEv", owner: .runtime, isLinked: true),
    Ownership(name: "_ZN6icu_7610Appendable15appendCodePointEi", owner: .runtime),
    Ownership(name: "dispatch_assert_queue.cold.1", owner: .runtime, isLinked: true),
    Ownership(name: "start_thread", owner: .system, isLinked: true),
    Ownership(name: "_dl_fixup", owner: .system, isLinked: true),
    Ownership(name: "$s7Runtime9BacktraceV", owner: .runtime, isLinked: true),
    Ownership(name: "__swift_instantiateConcreteTypeFromMangledName", owner: .runtime),
    Ownership(name: "_ZL23swift_image_constructorv", owner: .runtime),
    Ownership(name: "_ZL4loadRKN5swift6StringE", owner: .host),
    // Names that begin like those of a library that is not linked in.
    Ownership(name: "dispatch_request", owner: .host),
    Ownership(name: "swift_parse_message", owner: .host),
    Ownership(name: "swift_parse_message", owner: .host, path: "/srv/app/libparse.so", isExecutable: false),
    Ownership(name: "_Z19swift_parse_messagev", owner: .host),
    Ownership(name: "_ZN5swift7Message5parseEv", owner: .host),
    Ownership(name: "CFGReload", owner: .host),
    Ownership(name: "_dl_cache_reload", owner: .host),
    Ownership(name: "objc_decode", owner: .host),
    Ownership(name: "$s7Runtime6ParserV5parseyS2iF", owner: .host),
    Ownership(name: "$s11Observation5StoreV4loadyyF", owner: .host),
    // Names that no library has, whatever is linked in.
    Ownership(name: "start_thread_pool", owner: .host, isLinked: true),
    Ownership(name: "clone3d_render", owner: .host, isLinked: true),
    Ownership(name: "_ZN8swiftmsg5parseEv", owner: .host, isLinked: true),
    Ownership(name: "_start_server", owner: .host, isLinked: true),
    Ownership(name: "_ZnwmPvi", owner: .host, isLinked: true),
    // A program may have its own.
    Ownership(name: "_Znwm", owner: .host),
    Ownership(name: "_ZN2St3runEv", owner: .host),
    Ownership(name: "_ZL8blockingv", owner: .host),
    Ownership(name: "_Z6handleSt6vectorIiSaIiEE", owner: .host),
    Ownership(name: "_ZZ4mainENKUlvE_clEv", owner: .host),
    Ownership(name: "_ZN12_GLOBAL__N_15queryEv", owner: .host),
    Ownership(name: "_Z", owner: .host),
    Ownership(name: "_ZN", owner: .host),
    Ownership(name: "_ZN4host6Engine4turnEi", owner: .host),
    Ownership(name: "_start", owner: .system),
    Ownership(name: "read", owner: .system, path: "/lib/x86_64-linux-gnu/libc.so.6", isExecutable: false),
    Ownership(name: "read", owner: .system, path: "/opt/glibc/libc.so.6", isExecutable: false),
    Ownership(name: "SSL_read", owner: .system, path: "/usr/lib/x86_64-linux-gnu/libssl.so.3", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/usr/lib/app/plugins/libplugin.so", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/usr/lib/app/app", isExecutable: true),
    Ownership(name: "work", owner: .host, path: "/opt/app/lib/libwork.so", isExecutable: false),
    Ownership(name: "start_thread", owner: .system, path: "/opt/old/libpthread-2.31.so", isExecutable: false),
    Ownership(name: "x", owner: .system, path: "/opt/glibc/ld-linux-x86-64.so.2", isExecutable: false),
    Ownership(name: "x", owner: .runtime, path: "/opt/gcc/lib64/libstdc++.so.6.0.30", isExecutable: false),
    Ownership(name: "x", owner: .runtime, path: "/srv/swift/usr/lib/swift/linux/libNew.so", isExecutable: false),
    Ownership(name: "x", owner: .runtime, path: "/srv/swift/usr/lib/swift/linux/x86_64/libNew.so", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libpthreadpool.so", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libresolver.so.2", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libswiftly.so", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libFoundationModels.so", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libutil.so", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libc-ares.so.2", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libm-3d.so", isExecutable: false),
    Ownership(name: "work", owner: .host, path: "/srv/app/libunwinder.so", isExecutable: false),
    Ownership(name: "uv__io_poll", owner: .system, path: "/usr/local/lib/libuv.so.1", isExecutable: false),
    Ownership(name: "$s12DescriptorIO14LineDescriptorV", owner: .monitor),
    Ownership(name: "$s8NIOPosix19SelectableEventLoopC", owner: .runtime),
    Ownership(name: "CNIOLinux_recvmmsg", owner: .runtime),
    Ownership(
      name: "$sSS4mainE6shoutySSyF", owner: .runtime, path: "/opt/swift/usr/lib/swift/linux/libswiftCore.so",
      isExecutable: false),
    Ownership(name: "x", owner: .runtime, path: "/srv/app/lib/libFoundationEssentials.so", isExecutable: false),
    Ownership(name: "x", owner: .runtime, path: "/srv/app/lib/libdispatch.so", isExecutable: false),
    Ownership(name: "__vdso_clock_gettime", owner: .system, path: "[vdso]", isExecutable: false),
  ]

  @Test(arguments: ownerships) func ownersOfCodeAreDistinguished(example: Ownership) {
    let owner = HostCode.owner(
      modulePath: example.path, isExecutable: example.isExecutable, linkageName: example.name,
      symbol: Demangler.demangle(example.name), isOfLinkedLibrary: example.isLinked)
    #expect(owner == example.owner)
  }
}
