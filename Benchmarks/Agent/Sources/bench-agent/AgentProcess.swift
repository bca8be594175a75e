import Foundation
import Glibc

/// The agent that is measured: the release binary, on one processor, with its files in a directory of its own.
final class AgentProcess {
  let directory: URL
  private let process = Process()

  var socketPath: String { directory.appending(path: "stalld.sock").path }
  var output: URL { directory.appending(path: "stalls.jsonl") }
  var processID: Int32 { process.processIdentifier }

  init(executable: String, processor: Int, extra: String = "") throws {
    directory = FileManager.default.temporaryDirectory.appending(
      path: "bench-agent-\(getpid())-\(UUID().uuidString.prefix(4))")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let configuration = directory.appending(path: "stalld.yaml")
    try """
    socket: { path: \(socketPath) }
    control: { path: \(directory.path)/control.sock }
    outputs:
      - { type: file, path: \(output.path), max_size: 64GiB, keep: 2 }
    details: { directory: \(directory.path)/details }
    # All hosts of the bench are one user's, and of no unit.
    limits: { lines_per_second: 1000000, connections_per_user: 100000, user_bytes_per_day: off }
    \(extra)
    """.write(to: configuration, atomically: true, encoding: .utf8)
    process.executableURL = URL(fileURLWithPath: "/usr/bin/taskset")
    process.arguments = ["--cpu-list", String(processor), executable, "run", "--config", configuration.path]
    process.standardOutput = FileHandle.standardError
    try process.run()
    for _ in 0..<500 {
      if access(socketPath, F_OK) == 0 { return }
      usleep(20_000)
    }
    throw Failure(reason: "the agent did not start")
  }

  struct Failure: Error, CustomStringConvertible {
    var reason: String
    var description: String { reason }
  }

  /// A line of /proc/PID/status in KiB.
  func memory(_ key: String) -> Double {
    let status = (try? String(contentsOfFile: "/proc/\(processID)/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix(key + ":") }
    return line.flatMap { Double($0.split(separator: " ").dropLast().last ?? "") } ?? .nan
  }

  /// How often its threads have been woken.
  func wakeUps() -> Int {
    let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(processID)/task")) ?? []
    return tasks.reduce(0) { sum, task in
      let status = (try? String(contentsOfFile: "/proc/\(processID)/task/\(task)/status", encoding: .utf8)) ?? ""
      let line = status.split(separator: "\n").first { $0.hasPrefix("voluntary_ctxt_switches") }
      return sum + (line.flatMap { Int($0.split(whereSeparator: \.isWhitespace).last ?? "") } ?? 0)
    }
  }

  /// Processor seconds so far.
  func processorTime() -> Double {
    let stat = (try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8)) ?? ""
    let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
    guard fields.count > 13, let user = Double(fields[11]), let system = Double(fields[12]) else { return .nan }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  func stop() {
    kill(process.processIdentifier, SIGTERM)
    process.waitUntilExit()
  }

  deinit {
    if process.isRunning {
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }
    try? FileManager.default.removeItem(at: directory)
  }
}
