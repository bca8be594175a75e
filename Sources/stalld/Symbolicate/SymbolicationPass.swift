import Glibc
import StallMonitor

/// Lets the lines of files through, completed, and counts what it could not complete.
final class SymbolicationPass {
  /// Standard output takes nothing any more.
  struct OutputFailure: Error { var cause: SystemError }

  private let names: DebugFiles
  private let completion: ReportCompletion
  private var output: [UInt8] = []
  private var lines = 0
  private var completed = 0
  private var frames = 0
  private var foreign = 0

  /// The number of lines that are listed; the rest is only counted.
  private static let toldLines = 10
  private static let toldBuilds = 20

  init(names: DebugFiles) {
    self.names = names
    completion = ReportCompletion { names.look(up: $0, modulePath: $1, offset: $2) }
  }

  /// Lets one file through; `-` is standard input.
  ///
  /// Throws why it cannot be read, or ``OutputFailure``.
  func run(_ file: String) throws {
    let descriptor = file == "-" ? 0 : open(file, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError(code: errno) }
    var reader = LineReader(descriptor: descriptor)
    reader.willWait = { try self.flush() }
    var number = 0
    // Whatever was read before an error is written.
    defer { try? flush() }
    while let piece = try reader.next() {
      switch piece {
      case .part(let bytes, let isFirst):
        if isFirst {
          number += 1
          tell(file, number, "longer than \(LineReader.longestLine) bytes")
        }
        try write(bytes)
      case .line(let bytes, let isTerminated):
        number += 1
        lines += 1
        switch completion.complete(bytes) {
        case .unchanged: try write(bytes)
        case .notAReport(let reason):
          // A blank line is nobody's.
          if bytes.contains(where: { $0 > 0x20 }) { tell(file, number, reason) }
          try write(bytes)
        case .completed(let line, let count):
          completed += 1
          frames += count
          try write(line)
        }
        if isTerminated { try write([0x0a]) }
      }
    }
    try flush()
  }

  /// Whether there were lines, and none was a report.
  var hasNoReports: Bool { lines > 0 && foreign >= lines }

  /// What to do if there was nothing to complete.
  var advice: String? { lines == 0 ? InputAdvice.noLines : hasNoReports ? InputAdvice.noReports : nil }

  /// Says on standard error what was done, and what was not.
  func summarize() {
    for (id, build) in names.missing.sorted(by: { $0.key < $1.key }).prefix(Self.toldBuilds) {
      let path = build.path.map { " (\(Self.printable($0)))" } ?? ""
      let found = build.found.map { "; the file there is build \($0)" } ?? ""
      Self.say("no file for build \(id)\(path): its frames stay unchanged\(found)")
    }
    if names.missing.count > Self.toldBuilds {
      Self.say("no file for \(names.missing.count - Self.toldBuilds) more builds")
    }
    Self.say(
      "lines: \(lines); completed: \(completed), frames in them: \(frames)"
        + (foreign > 0 ? "; not reports, passed through: \(foreign)" : ""))
  }

  /// One line on standard error.
  static func say(_ text: String) {
    Talk.say("stalld symbolicate: \(text)")
  }

  private func tell(_ file: String, _ number: Int, _ reason: String) {
    foreign += 1
    if foreign <= Self.toldLines { Self.say("\(file == "-" ? "standard input" : file), line \(number): \(reason)") }
    if foreign == Self.toldLines + 1 { Self.say("further such lines are counted, not listed") }
  }

  /// A path of somebody else's, fit for a terminal.
  private static func printable(_ text: String) -> String {
    String(text.unicodeScalars.prefix(300).map { $0.value < 0x20 || $0.value == 0x7f ? "?" : Character($0) })
  }

  private func write(_ bytes: [UInt8]) throws {
    output += bytes
    if output.count > 256 << 10 { try flush() }
  }

  private func flush() throws {
    var written = 0
    defer { output.removeAll(keepingCapacity: true) }
    while written < output.count {
      let count = output[written...].withUnsafeBytes { Glibc.write(1, $0.baseAddress, $0.count) }
      if count < 0 {
        if errno == EINTR { continue }
        throw OutputFailure(cause: SystemError(code: errno))
      }
      written += count
    }
  }
}
