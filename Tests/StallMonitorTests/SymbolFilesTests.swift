import Foundation
import StallReport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// Which file speaks for a module: stripped, split, replaced, static, in memory.
@Suite struct SymbolFilesTests {
  let fixtures: SymbolFixtures

  init() throws {
    fixtures = try SymbolFixtures()
    #expect(Symbolizer.load() == nil)
  }

  private func answer(
    _ module: ModuleIdentity, _ address: UInt64, debugRoot: String = "/nonexistent"
  ) -> Symbolication {
    Symbolizer(debugRoots: [debugRoot]).symbolize(module: module, address: address, deadline: SymbolClock.generous())
  }

  private func victim() throws -> (file: String, address: UInt64, module: ModuleIdentity) {
    let file = try fixtures.clang(SymbolizerTests.cSource, ["-g", "-O2"])
    return (file, try fixtures.address("hidden_outer", in: file), try fixtures.module(file))
  }

  @Test func strippedFileHasNoNames() throws {
    let (file, address, module) = try victim()
    try fixtures.run(["strip", "--strip-all", file])
    #expect(answer(module, address).frames == [])
  }

  @Test func stripOfDebugInformationKeepsNames() throws {
    let (file, address, module) = try victim()
    try fixtures.run(["strip", "-g", file])
    let frames = answer(module, address).frames
    #expect(frames.map(\.linkageName) == ["hidden_outer"])
    #expect(frames.first?.line == nil)
    #expect(frames.first?.file == nil)
  }

  @Test func findsSeparateDebugFileByBuildID() throws {
    let (file, address, module) = try victim()
    let whole = answer(module, address)
    let hex = module.buildID.map { String(format: "%02x", $0) }.joined()
    let root = fixtures.path("debug")
    let directory = root + "/.build-id/" + hex.prefix(2)
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    try fixtures.run(["objcopy", "--only-keep-debug", file, "\(directory)/\(hex.dropFirst(2)).debug"])
    try fixtures.run(["strip", "--strip-all", file])
    #expect(answer(module, address, debugRoot: root) == whole)
    // And for an executable that is gone.
    try FileManager.default.removeItem(atPath: file)
    #expect(answer(module, address, debugRoot: root) == whole)
    // A debug file of another build under the right name is not believed.
    var other = module
    other.buildID[19] ^= 1
    #expect(answer(other, address, debugRoot: root).frames == [])
  }

  @Test(arguments: ["", ".debug/"]) func followsDebugLink(directory: String) throws {
    let (file, address, module) = try victim()
    let whole = answer(module, address)
    try fixtures.run(["mkdir", "-p", fixtures.path(".debug")])
    let debug = fixtures.path("\(directory)victim.debug")
    try fixtures.run(["objcopy", "--only-keep-debug", file, debug])
    try fixtures.run(["strip", "--strip-all", file])
    try fixtures.run(["objcopy", "--add-gnu-debuglink=\(debug)", file])
    #expect(answer(module, address) == whole)
  }

  /// `app -> current/app -> ../releases/7/app`, as deployments leave it, and a directory that is a link.
  @Test(arguments: ["app", "here/app"]) func followsDebugLinkBesideTheRealFile(way: String) throws {
    let (file, address, module) = try victim()
    let whole = answer(module, address)
    try fixtures.run(["mkdir", "-p", "releases/7/.debug", "current"])
    try fixtures.run(["objcopy", "--only-keep-debug", file, "releases/7/.debug/victim.debug"])
    try fixtures.run(["strip", "--strip-all", file])
    try fixtures.run(["objcopy", "--add-gnu-debuglink=releases/7/.debug/victim.debug", file])
    try fixtures.run(["mv", file, "releases/7/app"])
    try fixtures.run(["ln", "-s", "../releases/7/app", "current/app"])
    try fixtures.run(["ln", "-s", "current/app", "app"])
    try fixtures.run(["ln", "-s", "releases/7", "here"])
    let linked = ModuleIdentity(path: fixtures.path(way), buildID: module.buildID)
    #expect(answer(linked, address) == whole)
  }

  @Test func replacedFileIsNeverUsed() throws {
    let (file, address, module) = try victim()
    let symbolizer = Symbolizer(debugRoots: [])
    let before = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous())
    #expect(before.frames.last?.linkageName == "hidden_outer")
    // Another build at the same path, as a deployment leaves it.
    _ = try fixtures.clang("int other(void) { return 1; }\n" + SymbolizerTests.cSource, ["-g", "-O1"], name: "new")
    #expect(rename(fixtures.path("new"), file) == 0)
    let fresh = answer(module, address)
    #expect(fresh.frames == [])
    #expect(fresh.problem == "no file with this build ID")
    // What was read before the replacement stays true; what was not is not read from the new file.
    #expect(symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous()) == before)
    let later = symbolizer.symbolize(module: module, address: address + 1, deadline: SymbolClock.generous())
    #expect(later.frames == [])
  }

  @Test func fileWithoutBuildIDIsUsedWhileItIsOlder() throws {
    try SymbolizerTests.cSource.write(toFile: fixtures.path("plain.c"), atomically: true, encoding: .utf8)
    try fixtures.run(["clang", "-g", "-O2", "-Wl,--build-id=none", "-o", "plain", "plain.c"])
    let file = fixtures.path("plain")
    let module = ModuleIdentity(path: file, buildID: [])
    let address = try fixtures.address("hidden_outer", in: file)
    let symbolizer = Symbolizer()
    #expect(answer(module, address).frames.last?.linkageName == "hidden_outer")
    // Touched after the symbolizer was made: it may be another file.
    try fixtures.run(["touch", file])
    let late = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous())
    #expect(late.frames == [])
  }

  @Test func namesNothingBetweenFunctions() throws {
    let (file, _, module) = try victim()
    try fixtures.run(["strip", "-g", file])
    let functions = try fixtures.functions(file).filter { $0.size > 0 }
    let end = try #require(functions.map { $0.address + $0.size }.max())
    #expect(answer(module, end + 64).frames == [])
    #expect(answer(module, 1).frames == [])
    #expect(answer(module, UInt64.max).frames == [])
  }

  @Test func staticStandardLibrary() throws {
    let file = try fixtures.swiftc(
      "@inline(never) func deep(_ n: Int) -> Int { [n, 1, 2].sorted().reduce(0, +) }\nprint(deep(CommandLine.arguments.count))\n",
      ["-O", "-g", "-static-stdlib"])
    let module = try fixtures.module(file)
    let functions = try fixtures.functions(file)
    let deep = try #require(functions.first { $0.name.hasPrefix("$s6victim4deep") })
    let frames = answer(module, deep.address + deep.size / 2).frames
    #expect(frames.last?.shortSymbol == "deep(_:)")
    #expect(
      frames.last.map { HostCode.owner(modulePath: file, isExecutable: true, linkageName: $0.linkageName) } == .host)
    let retain = try #require(functions.first { $0.name == "swift_retain" })
    let runtime = try #require(answer(module, retain.address).frames.last)
    #expect(runtime.isOfLinkedLibrary)
    #expect(StackFrame(module: file).named([runtime], isExecutable: true).map(\.owner) == [.runtime])
    let start = SymbolClock.now()
    let symbolizer = Symbolizer()
    _ = symbolizer.symbolize(module: module, address: retain.address, deadline: SymbolClock.generous())
    // A loose bound, against a linear look-up; the true time is in the documentation.
    #expect(SymbolClock.now() - start < 2_000_000_000)
  }

  @Test func vdsoIsReadFromMemory() {
    // Symbols only; their addresses are offsets from the image's start.
    let module = ModuleIdentity(path: ModuleIdentity.vdsoPath, buildID: [])
    let names = Set((0..<UInt64(16384)).compactMap { answer(module, $0).frames.last?.linkageName })
    #expect(names.contains { $0.contains("clock_gettime") })
  }

  @Test func miniDebugInformation() throws {
    let (file, address, module) = try victim()
    try fixtures.run(["objcopy", "--only-keep-debug", file, "full"])
    try fixtures.run(["objcopy", "--strip-debug", "-S", "--keep-symbol=hidden_outer", "full", "mini"])
    try fixtures.run(["xz", "--keep", "mini"])
    try fixtures.run(["strip", "--strip-all", file])
    try fixtures.run(["objcopy", "--add-section", ".gnu_debugdata=mini.xz", file])
    #expect(answer(module, address).frames.map(\.linkageName) == ["hidden_outer"])
  }

  @Test func deadlineInterruptsAndResumes() throws {
    let file = try fixtures.swiftc(SymbolizerTests.swiftSource, ["-Onone", "-g"])
    let module = try fixtures.module(file)
    let function = try #require(try fixtures.functions(file).first { $0.name.hasPrefix("$s6victim6EngineC3run") })
    let whole = answer(module, function.address)
    let symbolizer = Symbolizer(debugRoots: [])
    let late = symbolizer.symbolize(module: module, address: function.address, deadline: 0)
    #expect(late.isIncomplete)
    #expect(late.frames == [])
    // 200 µs at a time it gets there, because what was built is kept.
    var tries = 0
    var last = late
    while last.isIncomplete, tries < 10_000 {
      last = symbolizer.symbolize(
        module: module, address: function.address, deadline: SymbolClock.now() + 200_000)
      tries += 1
    }
    #expect(last == whole)
  }

  @Test func heapStaysWithinItsBudget() throws {
    let file = try fixtures.swiftc(SymbolizerTests.swiftSource, ["-Onone", "-g"])
    let module = try fixtures.module(file)
    let budget = 64 << 10
    let symbolizer = Symbolizer(byteBudget: budget)
    for function in try fixtures.functions(file) {
      for address in stride(from: function.address, to: function.address + function.size, by: 4) {
        _ = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous())
      }
    }
    symbolizer.trim()
    #expect(symbolizer.bytes <= budget)
    for index in 0..<2000 {
      let unknown = ModuleIdentity(path: "/nonexistent/\(index)", buildID: [1, 2, 3])
      _ = symbolizer.symbolize(module: unknown, address: 0, deadline: SymbolClock.generous())
    }
    #expect(symbolizer.bytes <= 4 * budget)
  }
}
