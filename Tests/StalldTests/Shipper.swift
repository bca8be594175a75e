import Foundation
import TestSupport
import Testing

/// A log shipper of Debian's that runs for a test, with the configuration that operators install and another place for `/var/log`.
final class Shipper {
  enum Kind: String, CaseIterable, CustomTestStringConvertible {
    case rsyslog, syslogNG = "syslog-ng"

    var testDescription: String { rawValue }

    /// The program; nil if it is not installed.
    var program: String? {
      switch self {
      case .rsyslog: Program.installed("rsyslogd")
      case .syslogNG:
        ["/usr/sbin/syslog-ng", Repository.file(".build/judges/syslog-ng/syslog-ng").path].first {
          FileManager.default.isExecutableFile(atPath: $0)
        }
      }
    }

    fileprivate var configuration: String {
      switch self {
      case .rsyslog: "Config/rsyslog/30-stalld.conf"
      case .syslogNG: "Config/syslog-ng/stalld.conf"
      }
    }
  }

  /// The file that it follows.
  let source: URL
  private let output: URL
  private let process = Process()

  /// Starts one, with everything that it needs in a directory of the test's.
  init(_ kind: Kind, in directory: URL) throws {
    let logs = directory.appending(path: "log")
    source = logs.appending(path: "stalld/stalls.jsonl")
    output = logs.appending(path: "stall-reports.jsonl")
    try FileManager.default.createDirectory(at: source.deletingLastPathComponent(), withIntermediateDirectories: true)
    let main = directory.appending(path: "main.conf")
    let state = directory.path
    var text = try String(contentsOf: Repository.root.appending(path: kind.configuration), encoding: .utf8)
      .replacing("/var/log/", with: "\(logs.path)/")
    let check: [String]
    switch kind {
    case .rsyslog:
      text = "global(workDirectory=\"\(state)\")\n" + text
      check = ["-N1", "-f", main.path]
      process.arguments = ["-n", "-f", main.path, "-i", "\(state)/pid"]
    case .syslogNG:
      text = "@version: 3.35\n" + text
      let places = [
        "-f", main.path, "-R", "\(state)/persist", "-c", "\(state)/control", "-p", "\(state)/pid", "--no-caps",
      ]
      check = ["-s"] + places
      process.arguments = ["-F"] + places
    }
    try text.write(to: main, atomically: true, encoding: .utf8)
    let program = try #require(kind.program)
    let checked = try Program.run(program, check)
    try #require(checked.status == 0, "\(checked.errors)")

    process.executableURL = URL(fileURLWithPath: program)
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
  }

  deinit { stop() }

  /// The lines that it has passed on.
  func lines() -> [Data] {
    ((try? Data(contentsOf: output)) ?? Data()).split(separator: UInt8(ascii: "\n")).map { Data($0) }
  }

  /// How many bytes it has passed on.
  var passedOn: Int {
    (try? FileManager.default.attributesOfItem(atPath: output.path)[.size] as? Int) ?? 0
  }

  /// Ends it, in whatever it does: a thread of a test has SIGTERM blocked, and its children have, too.
  func stop() {
    guard process.isRunning else { return }
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }
}
