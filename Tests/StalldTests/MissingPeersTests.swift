import Foundation
import TestSupport
import Testing

/// Benchmarks and examples on a machine that has nothing of what they need: one line says what to install.
struct MissingPeersTests {
  @Test(arguments: [
    (["make", "-C", "Examples/libuv-service"], "pkg-config is not installed: apt-get install pkg-config"),
    (["make", "-C", "Examples/glib-service"], "pkg-config is not installed: apt-get install pkg-config"),
    (["python3", "Benchmarks/Report/bench.py", "stalld"], "jq and time not installed: apt-get install jq time"),
    (
      ["python3", "Benchmarks/Hummingbird/bench.py", "throughput", "hummingbird-service"],
      "taskset and wrk not installed: apt-get install util-linux wrk"
    ),
  ])
  func oneLineNamesWhatToInstall(_ command: [String], _ reason: String) throws {
    let scratch = try ScratchDirectory()
    for name in ["make", "sh", "python3", "cc"] {
      let program = try #require(Program.installed(name), "\(name) is missing")
      try FileManager.default.createSymbolicLink(
        atPath: scratch.url.appending(path: name).path, withDestinationPath: program)
    }
    let run = try Program.run(
      "/usr/bin/env", command, environment: ["PATH": scratch.path, "MAKELEVEL": "0"], in: Repository.root, limit: 30)
    #expect(run.status != 0)
    let lines = run.errors.split(separator: "\n").filter { !$0.hasPrefix("make: ") }
    #expect(lines.count == 1 && lines[0].contains(reason), "\(run.errors)")
  }

  /// Each package that a benchmark in Swift asks for is one that its target installs.
  @Test(arguments: [("bench-agent", "Agent"), ("bench-capture", "Capture"), ("bench-loop", "Loop")])
  func targetsInstallWhatBenchmarksName(_ target: String, _ benchmark: String) throws {
    let recipe = try Program.run("/usr/bin/env", ["make", "--dry-run", target], in: Repository.root, limit: 30).output
    let installed = recipe.split(separator: "\n").filter { $0.hasPrefix("scripts/install-dependencies ") }
      .flatMap { $0.split(separator: " ") }
    let folder = Repository.file("Benchmarks/\(benchmark)/Sources")
    let texts = try FileManager.default.subpathsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".swift") }
      .map { try String(contentsOf: folder.appending(path: $0), encoding: .utf8) }
    let named = texts.flatMap { $0.matches(of: /"(?:\/usr\/s?bin\/[^"]*|lib[a-z]*|GLib)": "([a-z0-9.-]*)"/).map(\.1) }
    #expect(!named.isEmpty)
    for package in Set(named) where package != "util-linux" {
      #expect(installed.contains(package), "make \(target) does not install \(package)")
    }
  }
}
