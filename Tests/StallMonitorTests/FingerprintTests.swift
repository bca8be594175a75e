import Foundation
import StallReport
import TestSupport
import Testing

@testable import StallMonitor
@testable import StallNaming

@Suite struct FingerprintCorpusTests {
  @Test(arguments: CorpusStall.all)
  func isWhatTheCorpusSays(stall: CorpusStall) {
    // Finds the demanglers.
    Symbolizer.load()
    var tree = CallTree()
    for sample in stall.samples.indices { tree.add(stall.stack(sample), weight: 1) }
    let shown = stall.stack(stall.shown)
    #expect(Culprit.frame(of: shown)?.name == stall.culprit)
    #expect(
      Culprit.fingerprint(of: shown, common: stall.running ? tree.certainCommonFrame.frame : nil) == stall.fingerprint)
  }

  /// Functions that wait for asynchronous calls: not each sample has them.
  @Test(arguments: CorpusStall.all)
  func asyncCallersHaveNoPartInIt(stall: CorpusStall) {
    Symbolizer.load()
    var caller = StackFrame(symbol: "App.route() async -> ()", module: "/srv/app")
    caller.isAsync = true
    var tree = CallTree()
    for sample in stall.samples.indices {
      tree.add(stall.stack(sample) + (sample % 2 == 0 ? [caller] : []), weight: 1)
    }
    let shown = stall.stack(stall.shown)
    let common = stall.running ? tree.certainCommonFrame.frame : nil
    #expect(Culprit.frame(of: shown + [caller])?.name == stall.culprit)
    #expect(Culprit.fingerprint(of: shown + [caller], common: common) == stall.fingerprint)
    #expect(Culprit.repeatKey(of: shown + [caller]) == Culprit.repeatKey(of: shown))
  }

  @Test func corpusIsThere() {
    #expect(CorpusStall.all.count >= 24)
    // Stalls with another responsible function have another fingerprint.
    let culprits = Dictionary(grouping: CorpusStall.all.filter { !$0.running }, by: \.culprit)
    for (culprit, stalls) in culprits { #expect(Set(stalls.map(\.fingerprint)).count == 1, "\(culprit ?? "")") }
    let fingerprints = culprits.values.compactMap { $0[0].fingerprint }
    #expect(Set(fingerprints).count == fingerprints.count && fingerprints.count >= 18)
  }
}

extension WatchedHosts {
  /// Real hosts: the same stall, however they were built, and wherever and as often as they run.
  @Suite(
    .serialized, .takingTurns)
  struct FingerprintTests {
    private static func fingerprints(
      _ scenario: String, _ build: Victim.Build, lock: String = "", through wrapper: [String] = []
    ) throws -> Set<String> {
      let victim = try Victim.run(
        scenario, milliseconds: TestMachine.stall(500), build: build,
        environment: ["STALLMONITOR_THRESHOLD": "100ms", "VICTIM_LOCK": lock], through: wrapper)
      return Set(victim.reports.compactMap { $0["stall", "fingerprint"] as? String })
    }

    @Test func sameStallOfAnyBuildHasTheSame() throws {
      var known: [String: String] = [:]
      for (scenario, lock) in [("compute", ""), ("sleep", ""), ("select", ""), ("lock", "Mutex"), ("deep", "")] {
        // Each run is another process, with its modules elsewhere.
        let debug = try Self.fingerprints(scenario, .debug, lock: lock)
        let release = try Self.fingerprints(scenario, .release, lock: lock)
        #expect(debug.count == 1, "\(scenario): \(debug)")
        #expect(debug == release, "\(scenario)")
        known[scenario] = debug.first
      }
      // Two ways to the same function are one stall; different functions are not.
      #expect(known["deep"] == known["compute"])
      #expect(Set(known.values).count == 4)
    }

    @Test(.enabled(if: geteuid() == 0, "setting a host name needs root"))
    func hostNameHasNoPartInIt() throws {
      let there = ["/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname elsewhere && exec \"$@\"", "sh"]
      let elsewhere = try Self.fingerprints("sleep", .debug, through: there)
      #expect(try elsewhere == Self.fingerprints("sleep", .debug))
    }

    /// A service in C whose source gets other lines, and other optimization.
    @Test func lineNumbersDoNotChangeIt() throws {
      let padded = "int unused(void) {\n\n\n  return 1;\n}\n\n" + Self.service
      let victims = [try Self.runInC(Self.service, "-O0"), try Self.runInC(padded, "-O2")]
      let fingerprints = victims.map { Set($0.reports.compactMap { $0["stall", "fingerprint"] as? String }) }
      #expect(victims.allSatisfy { $0.reports.last?.culprit == "wait_for_the_peer" })
      #expect(fingerprints[0].count == 1)
      #expect(fingerprints[0] == fingerprints[1])
    }

    /// Which of a thousand small functions a sample meets is a matter of chance.
    @Test func stallOnCPUIsIdentifiedByItsCommonCaller() throws {
      let ended = try (0..<2).compactMap { _ in
        try Self.runInC(Self.computation, "-O1").reports("stall.ended").first
      }
      #expect(ended.count == 2)
      // Of a watchdog that had no processor there may be one or two, all in one small function.
      for report in ended where (report["stall", "samples"] as? Int ?? 0) > 2 {
        #expect(report["stall", "fingerprint"] as? String == "v2:b45b6cbd15f67d33", "not that of handle: \(report)")
      }
    }

    private static func runInC(_ source: String, _ optimization: String) throws -> Victim {
      let library = Repository.root.appending(path: ".build/c-library/root")
      try #require(
        FileManager.default.fileExists(atPath: library.appending(path: "lib/pkgconfig/stallmonitor.pc").path),
        "libstallmonitor is missing: run `make test`, or `scripts/build-c-library \(library.path)`")
      let directory = FileManager.default.temporaryDirectory.appending(path: "stalld-service-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
      defer { try? FileManager.default.removeItem(at: directory) }
      let (file, program) = (directory.appending(path: "service.c"), directory.appending(path: "service"))
      try Data(source.utf8).write(to: file)
      let compiler = try Program.run(
        "/bin/sh",
        [
          "-c",
          """
          export PKG_CONFIG_PATH=\(library.path)/lib/pkgconfig
          cc -std=gnu11 -g \(optimization) $(pkg-config --cflags stallmonitor) -o \(program.path) \(file.path) \
          $(pkg-config --libs stallmonitor) -Wl,-rpath,\(library.path)/lib
          """,
        ])
      try #require(compiler.status == 0, "\(compiler.errors)")
      return try Victim.run("", program: program)
    }

    private static let service = """
      #include <stallmonitor.h>
      #include <unistd.h>
      __attribute__((noinline)) static int wait_for_the_peer(void) { return usleep(300000) + 1; }
      __attribute__((noinline)) static int handle(void) { return wait_for_the_peer(); }
      int main(void) {
        stallmonitor_start(0);
        stallmonitor_loop *watch = stallmonitor_loop_create("requests", 100);
        stallmonitor_loop_busy(watch);
        int result = handle();
        stallmonitor_loop_idle(watch);
        usleep(50000);
        stallmonitor_stop();
        return result - 1;
      }
      """

    private static let computation = """
      #include <stallmonitor.h>
      #include <time.h>
      #include <unistd.h>
      static double now(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
      }
      static volatile unsigned long counter;
      #define ONE(n) __attribute__((noinline)) static void leaf##n(void) { for (int i = 0; i < 500000; i++) counter = counter * 31 + n; }
      #define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
      #define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
      HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)
      #undef ONE
      #define ONE(n) leaf##n,
      static void (*const leaves[])(void) = {
        HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9)
      };
      __attribute__((noinline)) static int handle(void) {
        double end = now() + 1500;
        for (unsigned i = 0; now() < end; i++) leaves[i * 7 % 900]();
        return (int)counter;
      }
      int main(void) {
        stallmonitor_start(0);
        stallmonitor_loop *watch = stallmonitor_loop_create("requests", 100);
        stallmonitor_loop_busy(watch);
        int result = handle();
        stallmonitor_loop_idle(watch);
        usleep(50000);
        stallmonitor_stop();
        return result == 1;
      }
      """
  }
}
