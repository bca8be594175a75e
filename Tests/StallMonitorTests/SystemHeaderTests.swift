import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor
@testable import StallNaming

/// Whose code a header's templates and inline functions are once they are in the program's own file.
@Suite struct SystemHeaderTests {
  struct Example: Sendable {
    var file: String
    var source: String? = "/srv/app/main.cpp"
    var isSystem: Bool
  }

  static let examples: [Example] = [
    Example(file: "/usr/include/c++/12/bits/stl_algo.h", isSystem: true),
    Example(file: "/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h", isSystem: true),
    Example(file: "/usr/include/boost/asio/detail/scheduler.hpp", isSystem: true),
    Example(file: "/usr/include/stdlib.h", source: nil, isSystem: true),
    // What clang and libdw make of a toolchain's own search path.
    Example(
      file: "/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/stl_algo.h", isSystem: true),
    Example(file: "/usr/lib/gcc/x86_64-linux-gnu/12/include/emmintrin.h", isSystem: true),
    Example(file: "/usr/lib/gcc/x86_64-linux-gnu/12/include-fixed/limits.h", isSystem: true),
    Example(file: "/usr/lib/llvm-14/lib/clang/14.0.6/include/emmintrin.h", isSystem: true),
    Example(file: "/usr/lib/llvm-14/include/c++/v1/__algorithm/sort.h", isSystem: true),
    Example(file: "/usr/lib/llvm-14/include/llvm/ADT/SmallVector.h", isSystem: true),
    Example(file: "/opt/gcc-13.2/include/c++/13.2.0/bits/shared_ptr_base.h", isSystem: true),
    Example(file: "/nix/store/abc-gcc-12.3.0/include/c++/12.3.0/vector", isSystem: true),
    Example(file: "/opt/swift/usr/lib/clang/17/include/avxintrin.h", isSystem: true),
    Example(file: "/opt/swift/usr/lib/swift/shims/RefCount.h", isSystem: true),
    Example(file: "/opt/swift/usr/lib/swift/dispatch/once.h", isSystem: true),
    Example(file: "/srv/app/lib/swift/parser/parser.h", isSystem: false),
    Example(file: "/opt/swift/usr/include/x86_64-unknown-linux-gnu/c++/v1/__config_site", isSystem: true),
    Example(file: "/usr/local/include/c++/14/vector", source: "/usr/local/src/app/main.cpp", isSystem: true),
    // Images are built in /usr/src.
    Example(file: "/usr/include/c++/12/vector", source: "/usr/src/app/main.cpp", isSystem: true),
    // The program's own, wherever it lies.
    Example(file: "/srv/app/main.cpp", isSystem: false),
    Example(file: "/srv/app/include/c++/api.h", isSystem: false),
    Example(file: "/srv/app/include/c++/12/api.h", isSystem: false),
    Example(file: "/srv/app/usr/include/api.h", isSystem: false),
    Example(file: "/home/me/usr/include/app.cpp", source: "/home/me/usr/include/app.cpp", isSystem: false),
    Example(file: "/usr/include/app/app.cpp", source: "/usr/include/app/app.cpp", isSystem: false),
    Example(file: "/usr/include/app/queue.h", source: "/usr/include/app/app.cpp", isSystem: false),
    Example(file: "/usr/lib/app/app.cpp", source: "/usr/lib/app/app.cpp", isSystem: false),
    Example(file: "/usr/lib/gcc/app.cpp", source: "/usr/lib/gcc/app.cpp", isSystem: false),
    Example(file: "/usr/local/include/own/own.h", isSystem: false),
    Example(file: "/usr/src/include/own.h", isSystem: false),
    Example(file: "/usr/include/../src/own.h", isSystem: false),
    Example(file: "include/own.h", isSystem: false),
    Example(file: "", isSystem: false),
    Example(file: "/", isSystem: false),
    Example(file: "/usr/include", isSystem: false),
    Example(file: "../../../../..", isSystem: false),
  ]

  @Test(arguments: examples) func headerIsRecognisedByItsPath(example: Example) {
    #expect(SystemHeaders.contain(example.file, compiledFor: example.source) == example.isSystem)
  }

  // MARK: Compiled programs

  private static let source = """
    #include <algorithm>
    #include <atomic>
    #include <functional>
    #include <map>
    #include <memory>
    #include <mutex>
    #include <string>
    #include <vector>
    std::mutex guard;
    std::vector<int> numbers(1000, 3);
    std::map<int, std::string> names;
    std::atomic<int> spins;
    struct Descending { bool operator()(int a, int b) const { return a > b; } };
    namespace St { __attribute__((noinline)) void own_namespace() { spins.fetch_add(1); } }
    __attribute__((noinline)) void sort_numbers() { std::sort(numbers.begin(), numbers.end(), Descending()); }
    __attribute__((noinline)) void lock_guard() { std::lock_guard<std::mutex> lock(guard); numbers[0]++; }
    __attribute__((noinline)) void grow_strings() {
      std::vector<std::string> strings;
      for (int i = 0; i < 100; i++) strings.push_back("a string that is longer than the short ones");
      numbers[1] += strings.size();
    }
    __attribute__((noinline)) void fill_map() { for (int i = 0; i < 50; i++) names[i] = std::to_string(i); }
    __attribute__((noinline)) void call_function(std::function<void(int)> function) { function(3); }
    int main(int count, char **) {
      sort_numbers();
      lock_guard();
      grow_strings();
      fill_map();
      St::own_namespace();
      call_function([&](int value) { numbers[2] += value + count; });
      auto shared = std::make_shared<int>(3);
      return numbers[0] + *shared == 9;
    }

    """
  private static let own: Set<String> = [
    "sort_numbers()", "lock_guard()", "grow_strings()", "fill_map()", "St::own_namespace()", "main",
  ]

  struct Build: Sendable, CustomTestStringConvertible {
    var compiler: [String]
    /// Where the source lies, in a directory of the test's.
    var directory = "src"
    var strip: [String] = []
    var testDescription: String { (compiler + [directory] + strip).joined(separator: " ") }
  }

  static let builds: [Build] = [
    Build(compiler: ["g++", "-O0"]), Build(compiler: ["g++", "-O2"]), Build(compiler: ["g++", "-O3", "-gdwarf-4"]),
    Build(compiler: ["g++", "-O2", "-flto"]), Build(compiler: ["g++", "-O2", "-g1"]),
    Build(compiler: ["clang++", "-O0"]), Build(compiler: ["clang++", "-O2"]),
    Build(compiler: ["clang++", "-O2", "-gdwarf-4"]),
    Build(compiler: ["clang++", "-O2", "-flto", "-fuse-ld=lld"]),
    Build(compiler: ["clang++", "-O2", "-gline-tables-only"]),
    Build(compiler: ["g++", "-O2"], directory: "usr/include/c++/12"),
    Build(compiler: ["clang++", "-O2"], directory: "usr/lib/gcc/x86_64-linux-gnu/12/include"),
    // Names alone.
    Build(compiler: ["g++", "-O0"], strip: ["strip", "-g"]), Build(compiler: ["g++", "-O2"], strip: ["strip", "-g"]),
    Build(compiler: ["clang++", "-O0"], strip: ["strip", "-g"]),
  ]

  /// Instructions all over the program: those of the standard library belong to no code of the
  /// service, and those of the program are its own.
  @Test(.enabled(if: Program.installed("g++") != nil, "g++ is missing (Debian: g++)"), arguments: builds)
  func librariesAreResponsibleForNoInstruction(build: Build) throws {
    let fixtures = try SymbolFixtures()
    try #require(Symbolizer.load() == nil)
    let directory = fixtures.directory.appending(path: build.directory)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let source = directory.appending(path: "main.cpp").path
    try Self.source.write(toFile: source, atomically: true, encoding: .utf8)
    try fixtures.run(build.compiler + ["-g", "-Wl,--build-id=sha1", "-o", "victim", source])
    if !build.strip.isEmpty { try fixtures.run(build.strip + ["victim"]) }
    let module = try fixtures.module(fixtures.path("victim"))
    let symbolizer = Symbolizer(byteBudget: 64 << 20, debugRoots: [])

    var culprits: [String: Set<String>] = [:]
    for function in try fixtures.functions(module.path) where function.size > 0 {
      for address in stride(from: function.address, to: function.address + function.size, by: LongForm.isOn ? 7 : 61) {
        let names = symbolizer.symbolize(module: module, address: address, deadline: SymbolClock.generous()).frames
        let stack = StackFrame(module: module.path, offset: address).named(names, isExecutable: true)
        guard let culprit = stack.first(where: \.isHostCode) else { continue }
        culprits[culprit.name, default: []].insert(function.name)
      }
    }
    // What the C library starts every program with.
    let crt: Set<String> = [
      "main.cold", "deregister_tm_clones", "register_tm_clones", "frame_dummy", "__do_global_dtors_aux",
    ]
    let foreign = culprits.keys.filter { !Self.own.contains($0) && !Self.isWritten($0) && !crt.contains($0) }
    #expect(foreign.isEmpty, "\(foreign.map { "\($0) in \(culprits[$0]!)" })")
    for name in Self.own where !build.compiler.contains("-flto") && name != "main" {
      let short = name.dropLast(2)
      #expect(culprits.keys.contains { $0.hasPrefix(short) || "St::\($0)".hasPrefix(short) }, "\(name)")
    }
  }

  /// The program's source has it, or the compiler made it of that: a comparison, a lambda, what runs before main.
  private static func isWritten(_ name: String) -> Bool {
    name.hasPrefix("Descending::") || name.hasPrefix("main::") || name.hasPrefix("call_function(")
      || name.hasPrefix("_GLOBAL__sub_I_") || name.hasPrefix("__cxx_global_var_init")
      || name.hasPrefix("__static_initialization_and_destruction_0")
      || ["operator()", "sort_numbers", "lock_guard", "grow_strings", "fill_map", "own_namespace", "call_function"]
        .contains { name == $0 || name.hasPrefix("\($0)(") }
  }
}
