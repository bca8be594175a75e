import Foundation
import Testing

/// The victim program, run to its end as a process of its own and judged by what it wrote.
struct Victim {
  var status: Int32
  var reports: [Report]
  var talk: String

  /// The `key=value` pairs that the victim said.
  var facts: [String: String] {
    var facts: [String: String] = [:]
    for line in talk.split(separator: "\n") where line.hasPrefix("victim: ") {
      for pair in line.dropFirst("victim: ".count).split(separator: " ") {
        guard let equals = pair.lastIndex(of: "=") else { continue }
        facts[String(pair[..<equals])] = String(pair[pair.index(after: equals)...])
      }
    }
    return facts
  }

  /// Runs the victim.
  ///
  /// Every line that it wrote is validated against the schema.
  static func run(
    _ scenario: String, environment: [String: String] = [:], waitingFor words: String = "",
    whenReady: ((Process) throws -> Void)? = nil
  ) throws -> Victim {
    let process = Process()
    process.executableURL = root.appending(path: "Integrations/Ecosystem/.build/debug/EcosystemVictim")
    process.arguments = [scenario]
    var variables = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("STALLMONITOR_") }
    let state = URL(fileURLWithPath: "/dev/shm/stallmonitor-tests-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: state, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: state) }
    variables["STALLMONITOR_STATE_DIRECTORY"] = state.path
    variables["STALLMONITOR_REPEAT_WINDOW"] = "0s"
    variables.merge(environment) { $1 }
    process.environment = variables
    let (output, talk) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = talk
    try process.run()
    var said = Data()
    if let whenReady {
      while !String(decoding: said, as: UTF8.self).contains(words) {
        let more = talk.fileHandleForReading.availableData
        if more.isEmpty { break }
        said += more
      }
      try whenReady(process)
    }
    let lines = output.fileHandleForReading.readDataToEndOfFile()
    said += talk.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    try validate(lines)
    return Victim(
      status: process.terminationStatus, reports: try lines.split(separator: UInt8(ascii: "\n")).map(Report.init),
      talk: String(decoding: said, as: UTF8.self))
  }

  private static func validate(_ lines: Data) throws {
    guard !lines.isEmpty else { return }
    let validator = Process()
    // Debian's python3-jsonschema belongs to Debian's interpreter.
    validator.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    validator.arguments = ["Tests/Support/validate-lines.py", "Config/schema/stall-report.schema.json"].map {
      root.appending(path: $0).path
    }
    let (input, output) = (Pipe(), Pipe())
    validator.standardInput = input
    validator.standardOutput = output
    try validator.run()
    // Reports of a test are few; a pipe holds them.
    try input.fileHandleForWriting.write(contentsOf: lines)
    try input.fileHandleForWriting.close()
    let faults = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    validator.waitUntilExit()
    #expect(validator.terminationStatus == 0, "\(faults)")
  }

  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
}

/// A report line, read as a consumer would.
struct Report: @unchecked Sendable {  // Property-list values, never changed.
  private let object: [String: Any]

  init(_ line: Data) throws {
    object = try #require(try JSONSerialization.jsonObject(with: line) as? [String: Any])
  }

  subscript(_ path: String...) -> Any? {
    var value: Any? = object
    for key in path { value = (value as? [String: Any])?[key] }
    return value
  }

  var event: String { self["event", "name"] as? String ?? "" }
  var culprit: String { self["stall", "culprit"] as? String ?? "" }
  var cause: String { self["stall", "cause"] as? String ?? "" }
  var duration: Double { self["stall", "duration_ms"] as? Double ?? 0 }
  var loop: String { self["loop", "name"] as? String ?? "" }
  var file: String {
    let frames = self["stack"] as? [[String: Any]] ?? []
    return frames.first { $0["symbol"] as? String == culprit }?["file"] as? String ?? ""
  }
}
