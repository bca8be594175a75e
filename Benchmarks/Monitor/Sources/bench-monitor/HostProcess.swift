import Foundation

/// A host in a process of its own: this program, with another argument.
enum HostProcess {
  /// Runs it to its end.
  ///
  /// Returns the numbers that it prints.
  static func run(_ scenario: String) throws -> [Double] {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    process.arguments = [scenario]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw POSIXError(.ECHILD) }
    return text.split(whereSeparator: \.isWhitespace).compactMap { Double($0) }
  }
}
