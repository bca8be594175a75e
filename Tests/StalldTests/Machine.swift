import Foundation
import TestSupport
import Testing

/// A systemd of the test's own, booted over an overlay of the running system (Tests/Support/boot-systemd).
///
/// It is halted, and everything it needed is gone, when ``halt()`` returns; or when this process ends, however it ends.
final class Machine {
  /// Why none can be booted here; nil if one can.
  static let obstacle: String? = {
    do {
      let probe = try Program.run(script, ["--probe"])
      let reason = probe.output.trimmingCharacters(in: .whitespacesAndNewlines)
      if probe.status != 0 { return "looking for a way to boot a systemd failed: \(probe.errors)" }
      return reason.isEmpty ? nil : reason
    } catch {
      return "\(error)"
    }
  }()

  private static let script = Repository.file("Tests/Support/boot-systemd").path
  private let process = Process()
  private let alive = Pipe()
  private let leader: String

  /// Boots one, with a tree of files laid over the system.
  init(files: URL) throws {
    process.executableURL = URL(fileURLWithPath: Self.script)
    // Suites run side by side.
    process.arguments = ["stalld-test-\(getpid())-\(UUID().uuidString.prefix(8))", files.path]
    let (output, errors) = (Pipe(), Pipe())
    process.standardInput = alive
    process.standardOutput = output
    process.standardError = errors
    try process.run()
    var line = ""
    while !line.hasSuffix("\n"), case let bytes = output.fileHandleForReading.availableData, !bytes.isEmpty {
      line += String(decoding: bytes, as: UTF8.self)
    }
    let words = line.split(whereSeparator: \.isWhitespace)
    guard words.count == 2, words[0] == "leader" else {
      alive.fileHandleForWriting.closeFile()
      let console = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
      process.waitUntilExit()
      throw DidNotBoot(console: console)
    }
    leader = String(words[1])
  }

  /// Runs a command in the machine.
  @discardableResult
  func run(_ command: String...) throws -> Program { try run(command) }

  /// Runs a shell's script in the machine.
  @discardableResult
  func shell(_ script: String) throws -> Program { try run(["/bin/sh", "-c", script]) }

  /// A path in the machine, as it is seen from outside.
  func outside(_ path: String) -> String { "/proc/\(leader)/root\(path)" }

  /// Copies a file of the running system's to a place in the machine.
  func copy(_ source: String, to path: String) throws {
    try FileManager.default.copyItem(atPath: source, toPath: outside(path))
  }

  /// Starts a shell's script that sees the machine's files and is no process of it: it may do what only the running system may, and outlives
  /// the machine if need be.
  func startOutside(_ script: String, input: Pipe, output: Pipe) throws -> Process {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: Program.installed("nsenter")!)
    process.arguments = ["--target", leader, "--mount", "--", "/bin/sh", "-c", script]
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    return process
  }

  @discardableResult
  func run(_ command: [String]) throws -> Program {
    let namespaces = ["--target", leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
    return try Program.run(
      Program.installed("nsenter")!, namespaces + command, environment: ["LC_ALL": "C", "SYSTEMD_PAGER": ""])
  }

  /// A property of a unit, as `systemctl show` gives it.
  func property(_ name: String, of unit: String) throws -> String {
    try run("/usr/bin/systemctl", "show", "--value", "--property", name, unit).output
      .trimmingCharacters(in: .whitespacesAndNewlines)
  }

  /// Returns when the journal has what was said before: a unit may have ended before all that it has said is read.
  func syncJournal() throws { try run("/usr/bin/journalctl", "--sync") }

  private static let journalUnits =
    "systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket systemd-journald.service"

  /// journald ends, and its sockets with it.
  func stopJournal() throws -> Program { try shell("systemctl stop \(Self.journalUnits)") }

  func startJournal() throws -> Program { try shell("systemctl start \(Self.journalUnits)") }

  /// What a unit and systemd said of it, at least as urgent as `priority`.
  func journal(of unit: String, priority: String = "debug") throws -> String {
    try syncJournal()
    let what = ["--no-pager", "--quiet", "--output", "cat", "--unit", unit, "--priority", priority]
    return try run(["/usr/bin/journalctl"] + what).output
  }

  /// The reports that a unit has written to its standard output.
  func reports(of unit: String) throws -> [WrittenReport] {
    let lines = try journal(of: unit).split(separator: "\n").filter { $0.hasPrefix("{") }
    return try WrittenReport.all(in: lines.joined(separator: "\n"))
  }

  /// Ends it, and waits until its mounts, control groups and processes are gone.
  ///
  /// The exit code of that is returned.
  func halt() -> Int32 {
    alive.fileHandleForWriting.closeFile()
    process.waitUntilExit()
    return process.terminationStatus
  }

  struct DidNotBoot: Error, CustomStringConvertible {
    var console: String
    var description: String { "systemd did not boot; its console: \(console)" }
  }
}
