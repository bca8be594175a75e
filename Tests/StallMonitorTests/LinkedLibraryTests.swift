import StallReport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// Functions with names like a library's: the library's where it is linked in, the service's elsewhere.
@Suite struct LinkedLibraryTests {
  private let fixtures: SymbolFixtures

  init() throws {
    fixtures = try SymbolFixtures()
    #expect(Symbolizer.load() == nil)
  }

  private static let work = """
    volatile int sink;
    #define FUNCTION(name) __attribute__((noinline, used)) void name(void) { sink++; }
    FUNCTION(swift_parse_message) FUNCTION(dispatch_request) FUNCTION(CFGReload) FUNCTION(start_thread_pool)
    int main(void) { swift_parse_message(); dispatch_request(); CFGReload(); start_thread_pool(); return sink; }

    """
  private static let names = ["swift_parse_message", "dispatch_request", "CFGReload", "start_thread_pool"]

  private func owners(of names: [String], in file: String) throws -> [CodeOwner] {
    let (symbolizer, module) = (Symbolizer(debugRoots: []), try fixtures.module(file))
    return try names.map { name in
      let address = try fixtures.address(name, in: file)
      let answer = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous())
      #expect(answer.frames.last?.linkageName == name)
      let stack = StackFrame(module: file, offset: address).named(answer.frames, isExecutable: true)
      return try #require(stack.last).owner
    }
  }

  @Test(arguments: [["-g"], ["-g0"]]) func withoutTheLibraryTheNamesAreTheServices(options: [String]) throws {
    let file = try fixtures.clang(Self.work, options)
    #expect(try owners(of: Self.names, in: file) == [.host, .host, .host, .host])
  }

  /// As in an executable that is linked to the libraries themselves.
  @Test func functionsOfAnotherModuleAreNoAnchors() throws {
    let library = try fixtures.clang("void *swift_retain(void *x) { return x; }\n", ["-shared"], name: "libruntime.so")
    let caller = Self.work + "void *swift_retain(void *);\nvoid *keep(void) { return swift_retain(0); }\n"
    let file = try fixtures.clang(caller, ["-g0", "-Wl,--no-as-needed", library])
    #expect(try owners(of: Self.names, in: file) == [.host, .host, .host, .host])
  }

  private static let anchors = """
    FUNCTION(swift_retain) FUNCTION(dispatch_once_f) FUNCTION(CFRelease) FUNCTION(_CFRunLoopGet0)

    """

  @Test func withTheLibraryTheNamesAreTheLibrarys() throws {
    let file = try fixtures.clang(Self.work + Self.anchors, ["-g0"])
    let names = Self.names + ["swift_retain", "_CFRunLoopGet0"]
    #expect(try owners(of: names, in: file) == [.runtime, .runtime, .runtime, .host, .runtime, .runtime])
  }

  /// The libraries are shipped without debug information.
  @Test func debugInformationShowsWhatTheServicesAuthorsWrote() throws {
    let file = try fixtures.clang(Self.work + Self.anchors, ["-g"])
    #expect(try owners(of: Self.names, in: file) == [.host, .host, .host, .host])
  }

  /// The answer is the same once there is time.
  @Test func answerWithoutTimeIsIncomplete() throws {
    let file = try fixtures.clang(Self.work, ["-g0"])
    let (symbolizer, module) = (Symbolizer(debugRoots: []), try fixtures.module(file))
    let address = try fixtures.address("swift_parse_message", in: file)
    #expect(symbolizer.symbolize(module: module, address: address, deadline: 0).isIncomplete)
    let answer = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous())
    #expect(!answer.isIncomplete)
    #expect(answer.frames.map(\.isOfLinkedLibrary) == [false])
  }

  @Test(arguments: ["-Onone", "-O"]) func moduleOfTheServicesMayHaveTheNameOfTheToolchains(level: String) throws {
    let source = """
      import Synchronization
      let total = Mutex([0])
      @inline(never) func parse(_ n: Int) -> Int { total.withLock { $0.append(n); return $0.count } }
      print(parse(CommandLine.arguments.count))

      """
    let file = try fixtures.swiftc(source, [level, "-g", "-module-name", "Runtime"])
    let (symbolizer, module) = (Symbolizer(debugRoots: []), try fixtures.module(file))
    let functions = try fixtures.functions(file).filter {
      $0.name.hasPrefix("$s7Runtime5parse") || $0.name.hasPrefix("$s15Synchronization")
    }
    var found: Set<String> = []
    for function in functions {
      let names = symbolizer.symbolize(
        module: module, address: function.address + 4, deadline: SymbolClock.generous()
      ).frames
      let stack = StackFrame(module: file, offset: function.address + 4).named(names, isExecutable: true)
      for frame in stack where frame.isHostCode { found.insert(frame.symbol ?? "") }
    }
    #expect(found.contains("Runtime.parse(Swift.Int) -> Swift.Int"), "\(found)")
    #expect(!found.contains { $0.hasPrefix("Synchronization.") }, "\(found)")
  }
}
