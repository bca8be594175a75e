import CUnwind
import Foundation
import TestSupport
import Testing

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// Modules by the loader's list, as on a C library without `_dl_find_object`.
  @Suite(.serialized, .timeLimit(.minutes(1)))
  struct ModuleListTests {
    private struct Found: Equatable {
      var start: UInt64
      var bias: UInt64
      var buildID: [UInt8]
      var path: [UInt8]
      var function: UInt64

      /// The module and the function at the address, or nil.
      init?(_ address: UInt64) {
        var module = cunwind_module()
        guard cunwind_find_module(cunwind_own_process(), address, &module) else { return nil }
        start = module.start
        bias = module.load_bias
        buildID = withUnsafeBytes(of: module.build_id) { Array($0.prefix(Int(module.build_id_length))) }
        path = withUnsafeBytes(of: &module.path) { Array($0.prefix { $0 != 0 }) }
        function = cunwind_function_start(cunwind_own_process(), address)
      }
    }

    /// What `body` finds by the list.
    private func byList<Result>(_ body: () throws -> Result) rethrows -> Result {
      cunwind_use_module_list(true)
      defer { cunwind_use_module_list(false) }
      return try body()
    }

    /// An address in the middle of each mapping of a module's code; in the vDSO's first bytes, as its mapping may have a page without any.
    private static func codeAddresses() throws -> [UInt64] {
      // Foundation takes the file's size for its length, and the kernel says 0.
      let maps = try #require(try FileHandle(forReadingAtPath: "/proc/self/maps")?.readToEnd())
      return String(decoding: maps, as: UTF8.self).split(separator: "\n")
        .filter { $0.contains(" r-xp ") && ($0.contains(" /") || $0.contains("[vdso]")) }
        .compactMap { line in
          let ends = line.prefix { $0 != " " }.split(separator: "-").compactMap { UInt64($0, radix: 16) }
          guard ends.count == 2 else { return nil }
          return line.contains("[vdso]") ? ends[0] + 64 : ends[0] + (ends[1] - ends[0]) / 2
        }
    }

    @Test func listAgreesWithTheLoader() throws {
      let addresses = try Self.codeAddresses()
      #expect(addresses.count > 10)
      for address in addresses {
        let loaders = Found(address)
        #expect(loaders != nil && byList { Found(address) } == loaders)
      }
      #expect(byList { Found(4096) } == nil)
    }

    /// On aarch64, the vDSO lies between the segments of the loader.
    @Test(arguments: ["-pie", "-no-pie"])
    func addressBetweenSegmentsIsInNoModule(kind: String) throws {
      let fixtures = try SymbolFixtures()
      let unwinder = Repository.root.appending(path: "Sources/CUnwind").path
      let files = ["mappings.c", "modules.c", "memory.c", "process.c", "snapshot.c"].map { "\(unwinder)/\($0)" }
      let program = try fixtures.clang(
        String(contentsOf: Repository.root.appending(path: "Tests/Platforms/gaps.c"), encoding: .utf8),
        [kind, "-Wl,-z,max-page-size=65536", "-I\(unwinder)", "-I\(unwinder)/include"] + files)
      let result = try Program.run(program)
      #expect(result.status == 0, "\(result.output)")
    }

    @Test func moduleThatComesIsFoundAndOneThatGoesIsForgotten() throws {
      // First: libunwind could come to lie where the library of this test has been.
      let capture = ThreadCapture(of: .own)
      #expect(byList { Found(UInt64(UInt(bitPattern: dlsym(nil, "qsort")))) } != nil, "the list has been read")
      let library = try #require(dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL))
      let address = UInt64(UInt(bitPattern: dlsym(library, "__ctype_get_mb_cur_max")))
      let there = byList { Found(address) }
      #expect(there != nil)
      dlclose(library)
      // Another test may have loaded another library to the same place.
      #expect(
        byList {
          capture.flush()
          return Found(address)
        } != there)
    }

    @Test func stackIsTheSame() throws {
      let victim = VictimThread(depth: 40, leaf: .read)
      defer { victim.release() }
      let capture = ThreadCapture(of: .own)
      let probe = ThreadProbe(thread: victim.id, of: .own)
      let frames = try capture.captureWithPatience(probe).backtrace.get().frames.map(\.address)
      #expect(frames.count > 42)
      #expect(try byList { try capture.captureWithPatience(probe).backtrace.get().frames.map(\.address) } == frames)
    }
  }
}
