import Glibc
import StallMonitor
import StallReport

/// Lets the lines of files through, completed, and counts what it could not complete.
final class SymbolicationPass {
  private let names: DebugFiles
  private let completion: ReportCompletion
  private var output: [UInt8] = []
  private var last: UInt8?
  private var lines = 0
  private var completed = 0
  private var frames = 0
  private var foreign = 0
  private var hasReports = false

  /// The number of lines that are listed; the rest is only counted.
  private static let loggedLines = 10
  private static let loggedBuilds = 20

  init(names: DebugFiles) {
    self.names = names
    completion = ReportCompletion { names.look(up: $0, modulePath: $1, offset: $2) }
  }

  /// Lets one file through; `-` is standard input.
  ///
  /// Throws why it cannot be read.
  func run(_ input: InputFiles.Input) throws {
    let file = input.name
    var reader = LineReader(input)
    reader.willWait = { self.flush() }
    var number = 0
    // What was read before an error is written.
    defer { flush() }
    while let piece = try reader.next() {
      if number == 0, let error = InputAdvice.GzipInput(file, piece.bytes, for: "symbolicate") { throw error }
      // The last line of the file before may have none.
      if number == 0, let last, last != 0x0a { write([0x0a]) }
      switch piece {
      case .part(let bytes, let isFirst):
        if isFirst {
          number += 1
          lines += 1
          tell(file, number, "longer than \(LineReader.longestLine) bytes")
        }
        write(bytes)
      case .line(let bytes, let isTerminated):
        number += 1
        lines += 1
        switch completion.complete(bytes) {
        case .unchanged:
          hasReports = true
          write(bytes)
        case .notAReport(let reason):
          // Blank lines are ignored.
          if bytes.contains(where: { $0 > 0x20 }) { tell(file, number, reason) }
          write(bytes)
        case .completed(let line, let count):
          hasReports = true
          completed += 1
          frames += count
          write(line)
        }
        if isTerminated { write([0x0a]) }
      }
    }
  }

  /// Whether there were lines, and none was a report.
  var hasNoReports: Bool { foreign > 0 && !hasReports }

  /// What to do if there was nothing to complete.
  var advice: String? { lines == 0 ? InputAdvice.noLines : hasNoReports ? InputAdvice.noReports : nil }

  /// Says on standard error what was done, and what was not.
  func summarize() {
    for (id, build) in names.missing.sorted(by: { $0.key < $1.key }).prefix(Self.loggedBuilds) {
      let path = build.path.map { " (\($0.printable(limit: 300)))" } ?? ""
      let found = build.found.map { "; the file there is build \($0)" } ?? ""
      Self.say("no file for build \(id)\(path): its frames stay unchanged\(found)")
    }
    if names.missing.count > Self.loggedBuilds {
      Self.say("no file for \(names.missing.count - Self.loggedBuilds) more builds")
    }
    for (architecture, count) in names.missing.isEmpty ? [] : names.otherArchitectures.sorted(by: { $0.key < $1.key }) {
      Self.say("files for \(architecture) that were not used: \(count); run stalld symbolicate on that architecture")
    }
    for path in names.cutOff.sorted().prefix(Self.loggedBuilds) {
      Self.say("\(path.printable(limit: 300)) is cut off: it ends before its tables do; it was not used")
    }
    let useless = names.useless
    for path in useless.nameless { Self.say("--executable \(path) has no symbols and no debug information") }
    for file in hasReports ? useless.unused : [] {
      Self.say("--executable \(file.path) is build \(file.buildID), which no frame has")
    }
    Self.say(
      "lines: \(lines); completed: \(completed), frames in them: \(frames)"
        + (foreign > 0 ? "; not reports, passed through: \(foreign)" : ""))
  }

  /// One line on standard error.
  static func say(_ text: String) {
    StandardError.say("symbolicate", text)
  }

  private func tell(_ file: String, _ number: Int, _ reason: String) {
    foreign += 1
    if foreign <= Self.loggedLines { Self.say("\(file == "-" ? "standard input" : file), line \(number): \(reason)") }
    if foreign == Self.loggedLines + 1 { Self.say("further such lines are counted, not listed") }
  }

  private func write(_ bytes: [UInt8]) {
    output += bytes
    last = bytes.last ?? last
    if output.count > 256 << 10 { flush() }
  }

  private func flush() {
    StandardOutput.writeOrExit("symbolicate", TerminalText.json(output))
    output.removeAll(keepingCapacity: true)
  }
}
