import Foundation
import Glibc

/// A daemon under measurement: takes lines at a Unix stream socket and appends them to a file; on one processor, with its files in a
/// directory of its own.
class Collector {
  struct Failure: Error, CustomStringConvertible {
    var reason: String
    var description: String { reason }
  }

  let directory: URL
  /// Whether it acknowledges lines.
  let acknowledges: Bool
  private let process = Process()

  var socketPath: String { directory.appending(path: "lines.sock").path }
  var output: URL { directory.appending(path: "stalls.jsonl") }
  var processID: Int32 { process.processIdentifier }

  /// Starts `command` in `directory`, and waits until the socket is there.
  init(_ command: [String], in directory: URL, processor: Int, acknowledges: Bool) throws {
    self.directory = directory
    self.acknowledges = acknowledges
    process.executableURL = URL(fileURLWithPath: "/usr/bin/taskset")
    process.arguments = ["--cpu-list", String(processor)] + command
    process.standardOutput = FileHandle.standardError
    try process.run()
    for _ in 0..<500 {
      if access(socketPath, F_OK) == 0 { return }
      usleep(20_000)
    }
    throw Failure(reason: "\(command[0]) did not start")
  }

  static func makeDirectory() throws -> URL {
    let directory = FileManager.default.temporaryDirectory.appending(
      path: "bench-agent-\(getpid())-\(UUID().uuidString.prefix(4))")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    return directory
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

  /// Processor seconds so far, of the process and its children.
  func processorTime() -> Double {
    let children = (try? String(contentsOfFile: "/proc/\(processID)/task/\(processID)/children", encoding: .utf8)) ?? ""
    return ([processID] + children.split(separator: " ").compactMap { Int32($0) }).reduce(0) { $0 + Self.time(of: $1) }
  }

  private static func time(of process: Int32) -> Double {
    let stat = (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? ""
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

/// The agent: the release binary, with its default settings but for the file's size and limits of a single user, who plays all hosts.
final class AgentProcess: Collector {
  init(executable: String, processor: Int) throws {
    let directory = try Self.makeDirectory()
    let configuration = directory.appending(path: "stalld.yaml")
    try """
    socket: { path: \(directory.path)/lines.sock }
    control: { path: \(directory.path)/control.sock }
    outputs:
      - { type: file, path: \(directory.path)/stalls.jsonl, max_size: 64GiB, keep: 2 }
    details: { directory: \(directory.path)/details }
    limits: \(Self.limits)
    """.write(to: configuration, atomically: true, encoding: .utf8)
    try super.init(
      [executable, "run", "--config", configuration.path], in: directory, processor: processor, acknowledges: true)
  }

  /// All hosts are one user's here.
  private static let limits =
    "{ lines_per_second: 1000000, user_lines_per_second: 1000000, connections_per_user: 100000, user_bytes_per_day: off }"
}

/// rsyslog's shortest way from a socket to a file: imptcp and omfile, each line as it came.
final class RsyslogProcess: Collector {
  init(processor: Int) throws {
    let directory = try Self.makeDirectory()
    let configuration = directory.appending(path: "rsyslog.conf")
    try """
    global(workDirectory="\(directory.path)" maxMessageSize="64k")
    module(load="imptcp" threads="1")
    input(type="imptcp" path="\(directory.path)/lines.sock" ruleset="lines")
    template(name="line" type="string" string="%rawmsg%\\n")
    ruleset(name="lines") { action(type="omfile" file="\(directory.path)/stalls.jsonl" template="line") }
    """.write(to: configuration, atomically: true, encoding: .utf8)
    try super.init(
      ["/usr/sbin/rsyslogd", "-n", "-f", configuration.path, "-i", directory.appending(path: "pid").path],
      in: directory, processor: processor, acknowledges: false)
  }
}

/// Busy loops that compete for a processor.
final class BusyLoops {
  private let processes: [Process]

  init(_ count: Int, processor: Int) throws {
    processes = try (0..<count).map { _ in
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/taskset")
      process.arguments = ["--cpu-list", String(processor), "/bin/sh", "-c", "while :; do :; done"]
      try process.run()
      return process
    }
  }

  deinit {
    for process in processes {
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }
  }
}
