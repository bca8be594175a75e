import Foundation
import Testing

/// A program that is run to its end, and what it said.
struct Program {
  var status: Int32
  var output: String
  var errors: String

  /// Runs a program, and waits for it.
  static func run(
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
    let said = output.fileHandleForReading.readDataToEndOfFile()
    let complained = errors.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return Program(
      status: process.terminationStatus, output: String(decoding: said, as: UTF8.self),
      errors: String(decoding: complained, as: UTF8.self))
  }

  /// `stalld status` of an agent that is there.
  ///
  /// The command gives up after two seconds, which a busy machine may take: it is asked again after an exit code of 1.
  static func agentStatus(_ arguments: String..., control path: String) throws -> Program {
    let stalld = try built("stalld", "debug").path
    var answer: Program?
    _ = try comes {
      let latest = try run(stalld, ["status"] + arguments + ["--control", path])
      answer = latest
      return latest.status != 1
    }
    return try #require(answer)
  }

  /// A program of the system's, or nil if it is not installed.
  static func installed(_ name: String) -> String? {
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map { "\($0)/\(name)" }.first {
      FileManager.default.isExecutableFile(atPath: $0)
    }
  }

  /// A program of this package, as `swift build` leaves it.
  ///
  /// `make test` builds the release one.
  static func built(_ name: String, _ configuration: String) throws -> URL {
    let url = root.appending(path: ".build").appending(path: configuration).appending(path: name)
    try #require(
      FileManager.default.isExecutableFile(atPath: url.path),
      "\(url.path) is missing: run `make test`, or `swift build -c \(configuration) --product \(name)`")
    return url.resolvingSymlinksInPath()
  }

  /// The repository.
  static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
}

/// A directory that is removed with its last reference.
final class ScratchDirectory: Sendable {
  let url: URL

  init() throws {
    url = FileManager.default.temporaryDirectory.appending(path: "stalld-test-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(at: url) }
}
