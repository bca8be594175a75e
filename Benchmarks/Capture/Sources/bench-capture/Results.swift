import Foundation

/// What was measured: printed row by row, and at the end written to `Benchmarks/results/capture.json` and into
/// `Documentation/CaptureCost.md`.
struct Results {
  private var rows: [Row] = []
  private static let widths = [40, 34, 12, 8, 10, 8, 6]

  init() { Self.printLine(["benchmark", "subject", "value", "unit", "ratio", "bar", "pass"]) }

  mutating func add(_ more: [Row]) {
    for row in more {
      Self.printLine([
        row.benchmark, row.subject, Self.text(row.value), row.unit, row.ratio.map(Self.text) ?? "–",
        row.bar.map(Self.text) ?? "–", row.pass.map { $0 ? "yes" : "NO" } ?? "–",
      ])
    }
    rows += more
  }

  func publish() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try (encoder.encode(rows) + Data("\n".utf8)).write(to: root.appending(path: "Benchmarks/results/capture.json"))
    try writeTable(into: root.appending(path: "Documentation/CaptureCost.md"))
  }

  /// Puts the table between the page's two marks.
  private func writeTable(into page: URL) throws {
    let (begin, end) = ("<!-- make bench-capture writes this -->\n", "<!-- as far as here -->")
    var text = try String(contentsOf: page, encoding: .utf8)
    guard let from = text.range(of: begin)?.upperBound, let to = text.range(of: end)?.lowerBound, from <= to else {
      throw Problem("\(page.path) has no place for the table: it must lie between the lines \(begin)and \(end)")
    }
    var table = "\n\(Self.machine).\n\n| | | measured | ratio | promised |\n|---|---|---|---|---|\n"
    var last = ""
    for row in rows {
      let mark = row.pass.map { $0 ? " ✓" : " (missed)" } ?? ""
      let bar = row.bar.map { "≤ \(Self.text($0))\(row.ratio == nil ? " \(row.unit)" : "×")\(mark)" } ?? ""
      table += "| \(row.benchmark == last ? "" : row.benchmark) | \(row.subject) | \(Self.text(row.value)) \(row.unit) "
      table += "| \(row.ratio.map { Self.text($0) + "×" } ?? "") | \(bar) |\n"
      last = row.benchmark
    }
    text.replaceSubrange(from..<to, with: table + "\n")
    try text.write(to: page, atomically: true, encoding: .utf8)
  }

  private static var machine: String {
    var names = utsname()
    uname(&names)
    let kernel = withUnsafeBytes(of: &names.release) {
      String(decoding: $0.prefix { $0 != 0 && $0 != UInt8(ascii: "-") }, as: UTF8.self)
    }
    let processors = ProcessInfo.processInfo.activeProcessorCount
    var load = 0.0
    getloadavg(&load, 1)
    return
      "\(processors) processor\(processors == 1 ? "" : "s"), Linux \(kernel), load \(text(load)) at the end of the run"
  }

  private static func printLine(_ fields: [String]) {
    put(
      zip(fields, widths).map { field, width in
        field + String(repeating: " ", count: max(1, width - field.count))
      }.joined())
  }

  static func text(_ value: Double) -> String {
    value.magnitude >= 1000 ? String(format: "%.0f", value) : String(format: "%.3g", value)
  }
}

/// Why the benchmark cannot go on.
struct Problem: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

extension [Double] {
  /// The value below which that share of the sorted values lies.
  func percentile(_ share: Double) -> Double {
    let sorted = sorted()
    return sorted.isEmpty ? .nan : sorted[Swift.min(sorted.count - 1, Int(Double(sorted.count) * share))]
  }

  var median: Double { percentile(0.5) }
}

/// CLOCK_MONOTONIC in nanoseconds.
func now() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// Writes a line to standard output at once.
func put(_ line: some CustomStringConvertible) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
