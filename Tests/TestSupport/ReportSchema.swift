public import Foundation
import Synchronization
public import Testing

/// The published contract of report lines.
public enum ReportSchema {
  /// The schema of this version.
  public static let current = Repository.file("Config/schema/stall-report.schema.json")
  /// The schema of the last release.
  public static let lastRelease = Repository.file("Config/schema/released/stall-report-1.0.schema.json")

  private static let validator = Mutex<Validator?>(nil)

  /// What is wrong with lines by the schema; empty if nothing is.
  public static func faults(in lines: Data) throws -> String {
    guard !lines.isEmpty else { return "" }
    return try validator.withLock { validator in
      let current = try validator ?? Validator()
      // A new one is started after an error.
      validator = nil
      let faults = try current.faults(in: lines)
      validator = current
      return faults
    }
  }

  /// Records an issue unless each line is as the schema says.
  public static func expectValid(_ lines: Data, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let faults = try faults(in: lines)
    #expect(faults.isEmpty, "\(faults)", sourceLocation: sourceLocation)
  }
}

/// `validate-lines.py --serve`: one process for all lines, since Python takes longer to start than to validate.
private final class Validator: Sendable {
  private let input: FileHandle
  private let output: FileHandle

  init() throws {
    let process = Process()
    // Debian's python3-jsonschema belongs to Debian's interpreter.
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    process.arguments = [
      Repository.file("Tests/Support/validate-lines.py").path, ReportSchema.current.path, "--serve",
    ]
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    for handle in [input.fileHandleForWriting, output.fileHandleForReading] {
      // Programs that tests start beside this one are not to keep it alive.
      _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
    }
    try process.run()
    (self.input, self.output) = (input.fileHandleForWriting, output.fileHandleForReading)
  }

  func faults(in lines: Data) throws -> String {
    try input.write(contentsOf: Data("\(lines.count)\n".utf8) + lines)
    var answer = Data()
    while answer != Data("\n".utf8), answer.suffix(2) != Data("\n\n".utf8) {
      let more = output.availableData
      guard !more.isEmpty else { throw Ended() }
      answer += more
    }
    return String(decoding: answer.dropLast(), as: UTF8.self)
  }

  struct Ended: Error, CustomStringConvertible {
    var description: String { "validate-lines.py ended: is python3-jsonschema installed?" }
  }
}
