import StallReport
import Testing

/// Short names and modules of functions as reports name them.
@Suite struct ReportedNamesTests {
  struct Example: Sendable, CustomTestStringConvertible {
    var reported: String
    var short: String
    var module: String?
    var testDescription: String { short }

    init(_ reported: String, _ short: String, _ module: String?) {
      (self.reported, self.short, self.module) = (reported, short, module)
    }

    /// A name that stays.
    init(_ name: String, module: String? = nil) { self.init(name, name, module) }
  }

  static let examples: [Example] = [
    Example("web.Pool.take() -> web.Connection", "Pool.take()", "web"),
    Example(
      "closure #1 @Sendable (Swift.Int) async throws -> () in web.Foo.bar(_: Swift.Int) -> ()",
      "closure #1 in Foo.bar(_:)", "web"),
    Example(
      "closure #2 @Sendable (LoopEngine.Loop.Timer) -> () in static stalld.DemoHost.run() throws -> ()",
      "closure #2 in static DemoHost.run()", "stalld"),
    Example("closure #1 @Sendable () -> () in web", "closure #1 in web", "web"),
    Example(
      "implicit closure #1 () throws -> Swift.Bool in web.check(Swift.Int) -> Swift.Bool",
      "implicit closure #1 in check(_:)", "web"),
    Example(
      "(1) suspend resume partial function for web.Store.load(id: Swift.Int) async throws -> web.Item",
      "Store.load(id:)", "web"),
    Example(
      "(2) await resume partial function for closure #1 () async -> () in web.handle() async -> ()",
      "closure #1 in handle()", "web"),
    Example(
      "generic specialization <Swift.Int, web.Key> of web.Table.insert<A, B>(A, B) -> ()", "Table.insert(_:_:)", "web"),
    Example("web.Cache<Swift.String, web.Item>.subscript.getter : web.Item", "Cache.subscript.getter", "web"),
    Example("static web.Money.+ infix(web.Money, web.Money) -> web.Money", "static Money.+(_:_:)", "web"),
    Example("web.Pool.__deallocating_deinit", "Pool.__deallocating_deinit", "web"),
    Example("web.Pool.count.modify : Swift.Int", "Pool.count.modify", "web"),
    Example(
      "LoopEngine.Loop.(pass in _65708743483CBF2F15D1CFE2EBEC86AA)(_: LoopEngine.ModeState, limit: Swift.Int64) -> Swift.Bool",
      "Loop.pass(_:limit:)", "LoopEngine"),
    Example(
      "closure #1 (LoopEngine.ModeState) -> Swift.Bool in LoopEngine.Loop.run(_: LoopEngine.Loop.Mode) -> Swift.Bool",
      "closure #1 in Loop.run(_:)", "LoopEngine"),
    Example(
      "static (extension in ArgumentParser):ArgumentParser.ParsableCommand.main() -> ()",
      "static ParsableCommand.main()", "ArgumentParser"),
    Example(
      "closure #1 () -> () in (extension in web):Swift.String.shout() -> Swift.String", "closure #1 in String.shout()",
      "web"),
    // An extension of another module among the arguments is not the function's own.
    Example(
      "web.encode(as: (extension in Foundation):Swift.String.Encoding) -> ()", "encode(as:)", "web"),
    Example(
      "protocol witness for ArgumentParser.ParsableCommand.run() throws -> () in conformance web.Serve : ArgumentParser.ParsableCommand in web",
      "protocol witness for ParsableCommand.run() in conformance Serve", "ArgumentParser"),
    Example(
      "partial apply forwarder for closure #1 @Sendable () async -> () in web.serve() async -> ()",
      "partial apply for closure #1 in serve()", "web"),
    Example(
      "reabstraction thunk helper from @escaping @callee_guaranteed @Sendable () -> () to @escaping @callee_unowned @convention(block) @Sendable () -> ()",
      "reabstraction thunk", nil),
    Example(
      "variable initialization expression of web.Pool.names : [Swift.String]",
      "variable initialization expression of Pool.names", "web"),
    Example("async_MainTQ0_", "main.swift (top level)", nil),
    // A report cuts a long name: the short form does not look whole.
    Example(
      "web.Pool.take(count: Swift.Int, from: Swift.Arr", "web.Pool.take(count: Swift.Int, from: Swift.Arr", "web"),
    Example("static web.Pool.take(count: Swift.Int, from: Swift.Arr", "static Pool.take(count:…", "web"),
    // Other languages.
    Example("___pthread_mutex_lock"), Example("uv_run"), Example("main"), Example("parse.constprop.0", module: "parse"),
    Example("host::Engine::turn(int, char const*)"), Example("std::vector<int>::push_back(int&&)"),
    Example("handle_request(int)"), Example("core::ops::function::FnOnce::call_once"), Example(""),
    Example("(anonymous namespace)::work()"), Example("host::operator->(int)"),
  ]

  @Test(arguments: examples) func areShortAndKnowTheirModule(_ example: Example) {
    #expect(ShortSymbol.shorten(example.reported) == example.short)
    #expect(ShortSymbol.module(of: example.reported).map(String.init) == example.module)
  }

  @Test func generatedFunctionsAreRecognised() {
    let generated = [
      "partial apply forwarder for closure #1 () -> () in web.f() -> ()", "reabstraction thunk helper from () to ()",
      "@objc web.View.draw() -> ()", "protocol witness for A.f() -> () in conformance B : A in B",
      "non-virtual thunk to host::Engine::turn()", "virtual thunk to host::Engine::turn()",
    ]
    for name in generated { #expect(ShortSymbol.isCompilerGenerated(name), "\(name)") }
    for name in ["web.f() -> ()", "outlined", "thunk", "closure #1 () -> () in web.f() -> ()", "host::thunk(int)", ""] {
      #expect(!ShortSymbol.isCompilerGenerated(name), "\(name)")
    }
  }
}
