public import Foundation
import Testing

/// A program that was run to its end, and its output.
public struct Program {
  /// The exit code, or the number of the signal.
  public var status: Int32
  /// Standard output.
  public var output: String
  /// Standard error.
  public var errors: String

  /// Runs a program, and waits for its end.
  public static func run(
    _ path: String, _ arguments: [String] = [], environment: [String: String] = [:]
  ) throws -> Program {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    process.standardInput = FileHandle.nullDevice
    let (output, errors) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = errors
    try process.run()
    let outputData = output.fileHandleForReading.readDataToEndOfFile()
    let errorData = errors.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return Program(
      status: process.terminationStatus, output: String(decoding: outputData, as: UTF8.self),
      errors: String(decoding: errorData, as: UTF8.self))
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
