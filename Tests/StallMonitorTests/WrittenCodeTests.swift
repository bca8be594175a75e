import StallReport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// Code that somebody wrote, and that swiftc marks as artificial all the same.
@Suite struct WrittenCodeTests {
  private static let source = """
    #if canImport(Glibc)
    import Glibc
    #endif
    struct Settings { let length: Int; @inline(never) init(path: String) { usleep(7); length = path.utf8.count } }
    final class Connection { let length: Int; @inline(never) init(host: String) { usleep(7); length = host.utf8.count } }
    struct Opened { let length: Int; @inline(never) init(file: String) async { usleep(7); length = file.utf8.count } }
    @inline(never) func wait() async -> Int32 { async let result = usleep(7); return await result }
    let name = CommandLine.arguments[0]
    print(Settings(path: name).length, Connection(host: name).length, await Opened(file: name).length, await wait())

    """

  /// The functions of the service's own that a build has in the code of those that `isWanted`.
  private static func functions(in options: [String], where isWanted: (String) -> Bool) throws -> Set<String> {
    let fixtures = try SymbolFixtures()
    try #require(Symbolizer.load() == nil)
    let file = try fixtures.swiftc(source, options)
    let module = try fixtures.module(file)
    let symbolizer = Symbolizer(debugRoots: [])
    var found: Set<String> = []
    for function in try fixtures.functions(file) where isWanted(function.name) {
      for address in stride(from: function.address, to: function.address + function.size, by: 3) {
        let names = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous()).frames
        let stack = StackFrame(module: file, offset: address).named(names, isExecutable: true)
        for frame in stack where frame.isHostCode { found.insert(frame.shortSymbol ?? "") }
      }
    }
    return found
  }

  /// The optimizer specializes an initializer that does not use its type: what takes no type is artificial in DWARF.
  @Test func specializedInitializersAreTheServicesOwn() throws {
    let found = try Self.functions(in: ["-O", "-g"]) { $0.contains("fCTf") }
    #expect(
      found.isSuperset(of: ["Settings.init(path:)", "Connection.__allocating_init(host:)", "Opened.init(file:)"]),
      "\(found)")
  }

  @Test(arguments: [["-Onone", "-g"], ["-O", "-g"]]) func expressionOfAsyncLetIsTheServicesOwn(options: [String]) throws
  {
    let found = try Self.functions(in: options) { $0.contains("4wait") && $0.contains("fu_") }
    #expect(found.contains("implicit closure #1 in wait()"), "\(found)")
  }
}
