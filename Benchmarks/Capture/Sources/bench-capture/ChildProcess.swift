import Foundation

/// A process that is measured, and talked to in lines.
final class ChildProcess {
  private let process = Process()
  private let input = Pipe()
  private let output = Pipe()
  private var rest = Data()

  /// This program with `--child`, or another one.
  init(executable: URL? = nil, _ arguments: [String]) throws {
    process.executableURL = executable ?? URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    process.arguments = executable == nil ? ["--child"] + arguments : arguments
    process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("STALLMONITOR_") }
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    // A child that ends early must be seen at once.
    try input.fileHandleForReading.close()
    try output.fileHandleForWriting.close()
  }

  var processIdentifier: Int32 { process.processIdentifier }

  func say(_ line: String) { try? input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8)) }

  /// Its next line; nil at its end.
  func line() -> String? {
    while true {
      if let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        defer { rest = Data(rest[(end + 1)...]) }
        return String(decoding: rest[..<end], as: UTF8.self)
      }
      let more = output.fileHandleForReading.availableData
      if more.isEmpty { return nil }
      rest += more
    }
  }

  func end() {
    try? input.fileHandleForWriting.close()
    // Blocked signals are inherited, so asking might not be enough.
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }
}
