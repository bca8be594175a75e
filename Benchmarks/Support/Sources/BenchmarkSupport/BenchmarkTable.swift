public import Foundation

/// The rows of one run: printed, and written to `Benchmarks/results` and into pages of the documentation.
public struct BenchmarkTable {
  /// The rows, in the order in which they were measured.
  public private(set) var rows: [BenchmarkRow] = []
  private static let widths = [40, 34, 12, 8, 10, 8, 6]

  /// Prints the heads of the columns.
  public init() { Self.printLine(["benchmark", "subject", "value", "unit", "ratio", "target", "pass"]) }

  /// Prints rows, each as soon as it was measured.
  public mutating func add(_ more: [BenchmarkRow]) {
    for row in more {
      Self.printLine([
        row.benchmark, row.subject, row.value.short, row.unit, row.ratio.map(\.short) ?? "–",
        row.bar.map(\.short) ?? "–", row.pass.map { $0 ? "yes" : "NO" } ?? "–",
      ])
    }
    rows += more
  }

  /// Writes `Benchmarks/results/NAME.json`.
  public func writeJSON(_ name: String) throws {
    let directory = Self.repository.appending(path: "Benchmarks/results")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    try Self.write(rows, to: directory.appending(path: "\(name).json"))
  }

  /// Writes rows as JSON.
  public static func write(_ rows: [BenchmarkRow], to file: URL) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    try (encoder.encode(rows) + Data("\n".utf8)).write(to: file)
  }

  /// The repository, which has this package in `Benchmarks/Support`.
  public static let repository = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  private static func printLine(_ fields: [String]) {
    writeLine(
      zip(fields, widths).map { field, width in
        field + String(repeating: " ", count: max(1, width - field.count))
      }.joined())
  }
}

/// A table in Markdown.
public struct MarkdownTable {
  private var lines: [String]

  /// Makes a table with the heads of its columns.
  public init(_ heads: [String]) {
    lines = [Self.line(heads), "|" + String(repeating: "---|", count: heads.count)]
  }

  /// Adds a row.
  public mutating func add(_ cells: [String]) { lines.append(Self.line(cells)) }

  /// The table, with a newline at its end.
  public var text: String { lines.joined(separator: "\n") + "\n" }

  private static func line(_ cells: [String]) -> String {
    "|" + cells.map { $0.isEmpty ? " |" : " \($0) |" }.joined()
  }
}

/// Replaces what is between two lines of a page: `<!-- COMMAND writes this -->` and `<!-- as far as here -->`.
public func replaceTable(in page: URL, by command: String, with table: String) throws {
  let (begin, end) = ("<!-- \(command) writes this -->\n", "<!-- as far as here -->")
  var text = try String(contentsOf: page, encoding: .utf8)
  guard let from = text.range(of: begin)?.upperBound, let to = text.range(of: end)?.lowerBound, from <= to else {
    throw BenchmarkError("\(page.path) has no place for the table: it must lie between the lines \(begin)and \(end)")
  }
  text.replaceSubrange(from..<to, with: table)
  try text.write(to: page, atomically: true, encoding: .utf8)
}
