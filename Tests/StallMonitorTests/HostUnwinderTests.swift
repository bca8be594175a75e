import Foundation
import TestSupport
import Testing

/// What a host links against, and which unwinder its exceptions use: libunwind would make them 35 times slower.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3)))
struct HostUnwinderTests {
  @Test(arguments: ["StallVictim", "ThrowVictim", "stalld"])
  func hostNeedsNoUnwinderOfOurs(program: String) throws {
    let executable = try Victim.Build.debug.executable(program)
    let needed = try Self.output(of: ["readelf", "--dynamic", "--wide", executable.path])
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
      milliseconds: 300,
      environment: ["LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": directory.appending(path: "log").path])
    var bindings: [Substring] = []
    var isOpened = false
    for file in try FileManager.default.contentsOfDirectory(at: directory, includingPropertiesForKeys: nil) {
      let text = String(decoding: try Data(contentsOf: file), as: UTF8.self)
      isOpened = isOpened || text.contains("libunwind-x86_64")
      bindings += text.split(separator: "\n").filter { line in
        // What libunwind binds for itself is its own business.
        line.contains("symbol `_Unwind_") && !line.contains("binding file /lib/x86_64-linux-gnu/libunwind")
          && !line.contains("binding file /usr/lib/x86_64-linux-gnu/libunwind")
      }
    }
    #expect(isOpened, "the monitor has not opened libunwind: nothing is shown")
    #expect(bindings.contains { $0.contains("_Unwind_RaiseException") && $0.contains(#/ to \S*libgcc_s/#) })
    let strange = bindings.filter { $0.contains(#/ to \S*libunwind/#) }
    #expect(strange.isEmpty, "\(strange)")
  }

  /// Not judged by time: a benchmark's numbers, for whoever reads the log.
  @Test func exceptionsPerSecond() throws {
    let watched = try Self.throwVictim(milliseconds: 400, environment: [:])
    let alone = try Self.throwVictim(milliseconds: 400, environment: ["STALLMONITOR_ENABLED": "false"])
    #expect(watched["watching"] == "true" && alone["watching"] == "false")
    #expect((watched["throws_per_second"].flatMap { Int($0) } ?? 0) > 0)
    print("C++ exceptions a second: watched \(watched["throws_per_second"] ?? "?")", terminator: ", ")
    print("unwatched \(alone["throws_per_second"] ?? "?")")
  }

  private static func throwVictim(milliseconds: Int, environment: [String: String]) throws -> [String: String] {
    let process = Process()
    process.executableURL = try Victim.Build.debug.executable("ThrowVictim")
    process.arguments = [String(milliseconds)]
    var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("STALLMONITOR_") }
    variables["STALLMONITOR_THRESHOLD"] = "100ms"
    variables.merge(environment) { $1 }
    process.environment = variables
    let (lines, talk) = (Pipe(), Pipe())
    process.standardOutput = lines
    process.standardError = talk
    try process.run()
    let reports = lines.fileHandleForReading.readDataToEndOfFile()
    let words = String(decoding: talk.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    #expect(process.terminationStatus == 0, "\(words)")
    try ReportSchema.expectValid(reports)
    let pairs = words.split(whereSeparator: { $0 == " " || $0 == "\n" }).compactMap { pair -> (String, String)? in
      let halves = pair.split(separator: "=", maxSplits: 1)
      return halves.count == 2 ? (String(halves[0]), String(halves[1])) : nil
    }
    return Dictionary(pairs, uniquingKeysWith: { $1 })
  }

  private static func output(of command: [String]) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = command
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return String(decoding: data, as: UTF8.self)
  }
}
