import Foundation
import Testing

/// A victim program, run to its end as a process of its own and judged by what it wrote.
struct Victim {
  /// How the victim was built.
  enum Build: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case debug, release

    var testDescription: String { rawValue }

    /// The program, as `swift build` leaves it.
    ///
    /// `make test` builds both.
    func executable(_ name: String) throws -> URL {
      let url = Victim.buildDirectory.appending(path: rawValue).appending(path: name)
      try #require(
        FileManager.default.isExecutableFile(atPath: url.path),
        "\(url.path) is missing: run `make test`, or `swift build -c \(rawValue) --product \(name)`")
      return url
    }
  }

  var status: Int32
  var reports: [Report]
  var talk: String

  /// The `key=value` pairs that the victim said.
  var facts: [String: String] {
    var facts: [String: String] = [:]
    for line in talk.split(separator: "\n") where line.hasPrefix("victim: ") {
      for pair in line.dropFirst("victim: ".count).split(separator: " ") {
        guard let equals = pair.firstIndex(of: "=") else { continue }
        facts[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
      }
    }
    return facts
  }

  func reports(_ event: String) -> [Report] { reports.filter { $0.event == event } }

  /// Runs a victim.
  ///
  /// Every line that it wrote is validated against the schema.
  static func run(
    _ scenario: String, milliseconds: Int? = nil, build: Build = .debug, environment: [String: String] = [:],
    through wrapper: [String] = [], program: URL? = nil, whileRunning: ((Process) throws -> Void)? = nil
  ) throws -> Victim {
    let process = Process()
    // A wrapper is a command that ends in running the one behind it: `taskset -c 0`.
    let command =
      wrapper + [try (program ?? build.executable("StallVictim")).path, scenario]
      + (milliseconds.map { [String($0)] } ?? [])
    process.executableURL = URL(fileURLWithPath: command[0])
    process.arguments = Array(command.dropFirst())
    var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("STALLMONITOR_") }
    // Of its own, so that no other test's victim tells of this one's end.
    let state = URL(fileURLWithPath: "/dev/shm/stallmonitor-tests-\(UUID().uuidString)")
    if environment["STALLMONITOR_STATE_DIRECTORY"] == nil {
      try FileManager.default.createDirectory(at: state, withIntermediateDirectories: false)
      variables["STALLMONITOR_STATE_DIRECTORY"] = state.path
    }
    defer { try? FileManager.default.removeItem(at: state) }
    variables.merge(environment) { $1 }
    process.environment = variables
    let (output, talk) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = talk
    try process.run()
    try whileRunning?(process)
    let lines = output.fileHandleForReading.readDataToEndOfFile()
    let words = talk.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    try validate(lines)
    return Victim(
      status: process.terminationStatus, reports: try lines.split(separator: UInt8(ascii: "\n")).map(Report.init),
      talk: String(decoding: words, as: UTF8.self))
  }

  /// Fails unless every line is a report of the published contract.
  static func validate(_ lines: Data) throws {
    guard !lines.isEmpty else { return }
    let validator = Process()
    // Debian's python3-jsonschema belongs to Debian's interpreter.
    validator.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    validator.arguments = [
      root.appending(path: "Tests/Support/validate-lines.py").path,
      root.appending(path: "Config/schema/stall-report.schema.json").path,
    ]
    let file = FileManager.default.temporaryDirectory.appending(path: "stalld-lines-\(UUID().uuidString).jsonl")
    try lines.write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    validator.standardInput = try FileHandle(forReadingFrom: file)
    let output = Pipe()
    validator.standardOutput = output
    try validator.run()
    let faults = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    validator.waitUntilExit()
    #expect(validator.terminationStatus == 0, "\(faults)")
  }

  /// The repository.
  static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private static let buildDirectory = root.appending(path: ".build")
}

/// A report line, read as a consumer would.
struct Report: @unchecked Sendable {  // Property-list values, never changed.
  let object: [String: Any]

  init(_ line: Data) throws {
    object = try #require(try JSONSerialization.jsonObject(with: line) as? [String: Any])
  }

  subscript(_ path: String...) -> Any? {
    var value: Any? = object
    for key in path { value = (value as? [String: Any])?[key] }
    return value
  }

  var event: String { self["event", "name"] as? String ?? "" }
  var id: String { self["stall", "id"] as? String ?? "" }
  var culprit: String { self["stall", "culprit"] as? String ?? "" }
  var cause: String { self["stall", "cause"] as? String ?? "" }
  /// On a busy machine a computation is truly starved, and throttled in a group whose quota the kernel has counted as used up.
  func isCaused(by expected: String) -> Bool {
    if cause == expected { return true }
    guard expected == "running" else { return false }
    return cause == "starved" || (cause == "throttled" && self["stall", "evidence", "throttled_ms"] as? Double ?? 0 > 0)
  }
  var duration: Double { self["stall", "duration_ms"] as? Double ?? 0 }
  var stack: [[String: Any]] { self["stack"] as? [[String: Any]] ?? [] }

  /// The frame of the culprit.
  var culpritFrame: [String: Any]? { stack.first { $0["symbol"] as? String == culprit } }
}
