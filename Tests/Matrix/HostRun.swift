import Foundation

/// One run of the host, and all that is visible of it from outside.
struct HostRun {
  /// What is equal, watched and unwatched.
  struct Outcome: Equatable {
    /// `exit 0`, `signal 11`, or that it never ended.
    var end: String
    /// Standard output, without lines of the monitor's where it is their sink.
    var output: [String]
    /// The files of the working directory: their names, sizes and contents.
    var files: [String]
  }

  /// Longer than any run on any machine takes; only what hangs for good is ended by it.
  static let limitSeconds = Int(ProcessInfo.processInfo.environment["MATRIX_LIMIT"] ?? "") ?? 60

  var outcome: Outcome
  /// How many lines the monitor has written about stalls: one that ended before there was memory has its end alone.
  var reports: Int

  /// Runs a scenario to its end.
  init(_ scenario: Scenario, isWatched: Bool) throws {
    let name = "matrix-\(UUID().uuidString)"
    let work = FileManager.default.temporaryDirectory.appending(path: name)
    // In memory, where the monitor keeps the records of processes that end in a stall.
    let monitor = URL(fileURLWithPath: "/dev/shm").appending(path: name)
    // Hosts that give up root write here, too.
    for directory in [work, monitor] {
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
      chmod(directory.path, 0o777)
    }
    defer {
      for directory in [work, monitor] { try? FileManager.default.removeItem(at: directory) }
    }
    let process = try ChildProcess(
      [MatrixHost.program.get().path] + scenario.arguments(isWatched: isWatched),
      environment: Self.environment(scenario, work: work, monitor: monitor))
    let (end, data) = process.wait(seconds: Self.limitSeconds)
    let lines = Self.lines(data)
    let isSink = scenario.sink == .standardOutput
    let sinkLines =
      isSink
      ? lines.filter { $0.hasPrefix("{") }
      : (try? Data(contentsOf: monitor.appending(path: "lines"))).map(Self.lines) ?? []
    reports = sinkLines.count { $0.contains("stall.started") || $0.contains("stall.ended") }
    outcome = Outcome(
      end: end, output: isSink ? lines.filter { !$0.hasPrefix("{") } : lines, files: Self.files(in: work))
  }

  private static func lines(_ data: Data) -> [String] {
    data.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
  }

  private static func environment(_ scenario: Scenario, work: URL, monitor: URL) -> [String: String] {
    var variables = ProcessInfo.processInfo.environment.filter {
      !$0.key.hasPrefix("STALLMONITOR_") && !$0.key.hasPrefix("MATRIX_") && $0.key != "NOTIFY_SOCKET"
        && !$0.key.hasPrefix("WATCHDOG_")
    }
    variables.merge(scenario.environment) { $1 }
    variables["MATRIX_DIRECTORY"] = work.path
    if ProcessInfo.isProcessorEmulated { variables["MATRIX_STALL_FACTOR"] = "5" }
    variables["STALLMONITOR_STATE_DIRECTORY"] = monitor.path
    switch scenario.sink {
    case .file: variables["STALLMONITOR_SINK"] = "file:\(monitor.path)/lines"
    case .agent:
      let socket = "\(monitor.path)/agent"
      variables["STALLMONITOR_SINK"] = "agent:\(socket)"
      variables["MATRIX_AGENT"] = socket
    case .standardOutput, .own: break
    }
    return variables
  }

  private static func files(in directory: URL) -> [String] {
    guard let paths = FileManager.default.enumerator(atPath: directory.path) else { return [] }
    return paths.compactMap { $0 as? String }.sorted().compactMap { path in
      let url = directory.appending(path: path)
      var status = stat()
      guard lstat(url.path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
      guard let data = try? Data(contentsOf: url) else { return "\(path): unreadable" }
      let sum = data.reduce(5381 as UInt64) { $0 &* 33 &+ UInt64($1) }
      let text = data.count <= 400 ? Self.lines(data).joined(separator: " | ") : "…"
      return "\(path): \(data.count) bytes, \(String(sum, radix: 16)): \(text)"
    }
  }
}
