public import Foundation
import Testing

/// A program that was run to its end, and its output.
public struct Program {
  /// The exit code, or the number of the signal.
  public var status: Int32
  /// The number of the signal that ended it; nil if it has exited.
  public var signal: Int32?
  /// Standard output, byte by byte.
  public var data: Data
  /// Standard error.
  public var errors: String

  /// Standard output.
  public var output: String { String(decoding: data, as: UTF8.self) }

  /// Runs a program, and waits for its end.
  ///
  /// It is killed if it has not ended after `limit` seconds.
  public static func run(
    _ path: String, _ arguments: [String] = [], environment: [String: String] = [:], in directory: URL? = nil,
    input: FileHandle = .nullDevice, limit: Double? = nil
  ) throws -> Program {
    let (output, errors) = (Pipe(), Pipe())
    let process = try start(
      path, arguments, environment: environment, in: directory, input: input, output: output, errors: errors)
    // A program whose end nobody serves would never end by itself.
    let killer = DispatchWorkItem { kill(process.processIdentifier, SIGKILL) }
    if let limit { DispatchQueue.global().asyncAfter(deadline: .now() + limit, execute: killer) }
    let texts = try readToEnd([output, errors])
    process.waitUntilExit()
    killer.cancel()
    return Program(
      status: process.terminationStatus,
      signal: process.terminationReason == .uncaughtSignal ? process.terminationStatus : nil, data: texts[0],
      errors: String(decoding: texts[1], as: UTF8.self))
  }

  /// Starts a program, with the environment of the tests but for what configures a monitor.
  ///
  /// Its input and outputs are `FileHandle`s or `Pipe`s; standard error is the tests' own if it is nil.
  public static func start(
    _ path: String, _ arguments: [String] = [], environment: [String: String] = [:], in directory: URL? = nil,
    input: Any = FileHandle.nullDevice, output: Any = FileHandle.nullDevice, errors: Any? = nil
  ) throws -> Process {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment
      .filter { !$0.key.hasPrefix("STALLMONITOR_") && $0.key != "STATE_DIRECTORY" }.merging(environment) { $1 }
    if let directory { process.currentDirectoryURL = directory }
    process.standardInput = input
    process.standardOutput = output
    if let errors { process.standardError = errors }
    try process.run()
    StandstillWatch.current?.watch(process: process.processIdentifier)
    return process
  }

  /// What is written to pipes, each to its end; none is left to fill up meanwhile.
  private static func readToEnd(_ pipes: [Pipe]) throws -> [Data] {
    var texts = pipes.map { _ in Data() }
    var waits = pipes.map { pollfd(fd: $0.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0) }
    while waits.contains(where: { $0.fd >= 0 }) {
      guard poll(&waits, nfds_t(waits.count), -1) >= 0 || errno == EINTR else { throw POSIXError(.EIO) }
      for index in waits.indices where waits[index].fd >= 0 && waits[index].revents != 0 {
        let more = pipes[index].fileHandleForReading.availableData
        if more.isEmpty { waits[index].fd = -1 } else { texts[index] += more }
      }
    }
    return texts
  }

  /// The path of a program of the system's, or nil if it is not installed.
  public static func installed(_ name: String) -> String? {
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map { "\($0)/\(name)" }.first {
      FileManager.default.isExecutableFile(atPath: $0)
    }
  }

  /// A program of this package, as `swift build` leaves it.
  ///
  /// `make test` builds those of the release configuration.
  public static func built(_ name: String, _ configuration: String) throws -> URL {
    let url = Repository.file(".build/\(configuration)/\(name)")
    try #require(
      FileManager.default.isExecutableFile(atPath: url.path),
      "\(url.path) is missing: run `make test`, or `swift build -c \(configuration) --product \(name)`")
    return url.resolvingSymlinksInPath()
  }
}

/// Programs that keep processors busy until they are stopped.
public final class Spinners: Sendable {
  private let processes: [pid_t]

  /// Starts a program for each number of a processor.
  public init(onProcessors processors: [Int]) throws {
    processes = try processors.map {
      try Program.start("/usr/bin/taskset", ["-c", "\($0)", "/bin/sh", "-c", "while :; do :; done"]).processIdentifier
    }
  }

  /// Ends them.
  ///
  /// Not by SIGTERM: threads that run tests block it, and what they start inherits that.
  public func stop() { for process in processes { kill(process, SIGKILL) } }
}
