import Foundation
import TestSupport
import Testing

/// What a host links against, and which unwinder its exceptions use: libunwind would make them 35 times slower.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
struct HostUnwinderTests {
  @Test(arguments: ["StallVictim", "ThrowVictim", "stalld"])
  func hostNeedsNoUnwinderOfOurs(program: String) throws {
    let executable = try Victim.Build.debug.executable(program)
    let needed = try Program.run("/usr/bin/env", ["readelf", "--dynamic", "--wide", executable.path]).output
      .split(separator: "\n").filter { $0.contains("(NEEDED)") }
    #expect(!needed.isEmpty)
    var unwanted = ["libunwind", "libdw", "libelf"]
    if program != "stalld" { unwanted.append("Foundation") }
    for name in unwanted { #expect(!needed.contains { $0.contains(name) }, "\(program) needs \(name): \(needed)") }
  }

  /// With the monitor on, and libunwind opened by it, exceptions are still libgcc's.
  @Test func exceptionsAreLibgccs() throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "bindings-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    _ = try Self.throwVictim(
      milliseconds: TestMachine.stall(300),
      environment: ["LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": directory.appending(path: "log").path])
    var bindings: [Substring] = []
    var isOpened = false
    for file in try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil) {
      let text = String(decoding: try Data(contentsOf: file), as: UTF8.self)
      isOpened = isOpened || text.contains("/libunwind-")
      bindings += text.split(separator: "\n").filter { line in
        // What libunwind binds for itself is its own business.
        line.contains("symbol `_Unwind_") && !line.contains(#/binding file \S*\/libunwind/#)
      }
    }
    #expect(isOpened, "the monitor has not opened libunwind: nothing is shown")
    #expect(bindings.contains { $0.contains("_Unwind_RaiseException") && $0.contains(#/ to \S*libgcc_s/#) })
    let strange = bindings.filter { $0.contains(#/ to \S*libunwind/#) }
    #expect(strange.isEmpty, "\(strange)")
  }

  /// The time is not checked: the numbers are for readers of the log.
  @Test func exceptionsPerSecond() throws {
    let watched = try Self.throwVictim(milliseconds: 400, environment: [:])
    let alone = try Self.throwVictim(milliseconds: 400, environment: ["STALLMONITOR_ENABLED": "false"])
    #expect(watched["watching"] == "true" && alone["watching"] == "false")
    #expect((watched["throws_per_second"].flatMap { Int($0) } ?? 0) > 0)
    print("C++ exceptions a second: watched \(watched["throws_per_second"] ?? "?")", terminator: ", ")
    print("unwatched \(alone["throws_per_second"] ?? "?")")
  }

  private static func throwVictim(milliseconds: Int, environment: [String: String]) throws -> [String: String] {
    let victim = try Program.run(
      Victim.Build.debug.executable("ThrowVictim").path, [String(milliseconds)],
      environment: ["STALLMONITOR_THRESHOLD": "100ms"].merging(environment) { $1 })
    let words = victim.errors
    #expect(victim.status == 0, "\(words)")
    try ReportSchema.expectValid(victim.data)
    let pairs = words.split(whereSeparator: { $0 == " " || $0 == "\n" }).compactMap { pair -> (String, String)? in
      let halves = pair.split(separator: "=", maxSplits: 1)
      return halves.count == 2 ? (String(halves[0]), String(halves[1])) : nil
    }
    return Dictionary(pairs, uniquingKeysWith: { $1 })
  }
}
