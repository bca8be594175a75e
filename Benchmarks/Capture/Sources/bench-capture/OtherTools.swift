import BenchmarkSupport
import Foundation

/// Measures other tools that inspect a process, and what the process notices of them.
///
/// The first thread of a process of its own, with 200 frames.
enum OtherTools {
  private struct Tool: Sendable {
    var name: String
    var path: String
    var arguments: @Sendable (String) -> [String]
    var times: Int
  }

  private static let tools = [
    Tool(name: "eu-stack -p", path: "/usr/bin/eu-stack", arguments: { ["-p", $0] }, times: 7),
    Tool(
      name: "gdb -p … -batch -ex bt", path: "/usr/bin/gdb",
      arguments: { ["-nx", "-p", $0, "-batch", "-ex", "bt"] }, times: 3),
  ]

  /// The Debian package of each tool, by its path.
  static let packages = ["/usr/bin/eu-stack": "elfutils", "/usr/bin/gdb": "gdb"]

  static func run() throws -> [BenchmarkRow] {
    let running = try ChildProcess(["target", "running"])
    let waiting = try ChildProcess(["target", "waiting"])
    defer {
      running.end()
      waiting.end()
    }
    return try tools.flatMap { tool in
      var pauses: [Double] = []
      var broken: [Double] = []
      for _ in 0..<tool.times {
        if let answer = try look(at: running, with: tool) { pauses.append(answer[0] / 1e3) }
        if let answer = try look(at: waiting, with: tool) { broken.append(answer[1]) }
      }
      guard !pauses.isEmpty, !broken.isEmpty else {
        writeLine("(\(tool.name) could not look at a process)")
        return [BenchmarkRow]()
      }
      return [
        BenchmarkRow(
          benchmark: "what people use today", subject: "\(tool.name): pause", value: pauses.median, unit: "us"),
        BenchmarkRow(
          benchmark: "what people use today", subject: "\(tool.name): calls broken",
          value: broken.reduce(0, +) / Double(broken.count), unit: "per capture"),
      ]
    }
  }

  /// Runs the tool on the child.
  ///
  /// The child's answer is its longest gap in nanoseconds, and the calls that failed or ended early; nil if the tool failed.
  private static func look(at child: ChildProcess, with tool: Tool) throws -> [Double]? {
    child.say("begin")
    guard child.line() == "ready" else { throw BenchmarkError("a child does not answer") }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: tool.path)
    process.arguments = tool.arguments(String(child.processIdentifier))
    // Nothing is fetched from elsewhere.
    process.environment = ProcessInfo.processInfo.environment.filter { $0.key != "DEBUGINFOD_URLS" }
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    child.say("end")
    guard let answer = child.line()?.split(separator: " ").compactMap({ Double($0) }), answer.count == 2 else {
      throw BenchmarkError("a child does not answer")
    }
    return process.terminationStatus == 0 ? answer : nil
  }
}
