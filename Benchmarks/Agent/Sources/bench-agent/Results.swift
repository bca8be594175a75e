import Foundation

/// One row of a benchmark's table, and of its JSON file.
struct Row: Encodable {
  var benchmark: String
  var subject: String
  var value: Double
  var unit: String
  /// Against the row's peer in the same run, where there is one.
  var ratio: Double?
  /// The most that the value may be, where that is promised.
  var bar: Double?

  var pass: Bool? { bar.map { value <= $0 } }

  private enum Key: String, CodingKey { case benchmark, subject, value, unit, ratio, bar, pass }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: Key.self)
    try container.encode(benchmark, forKey: .benchmark)
    try container.encode(subject, forKey: .subject)
    try container.encode(value, forKey: .value)
    try container.encode(unit, forKey: .unit)
    try container.encode(ratio, forKey: .ratio)
    try container.encode(bar, forKey: .bar)
    try container.encode(pass, forKey: .pass)
  }
}

enum Results {
  /// Prints the table, and writes `Benchmarks/results/NAME.json`.
  static func publish(_ rows: [Row], name: String) throws {
    func line(_ fields: [String]) -> String {
      zip(fields, [34, 34, 12, 8, 8, 10, 6]).map { field, width in
        field + String(repeating: " ", count: max(1, width - field.count))
      }.joined()
    }
    print(line(["benchmark", "subject", "value", "unit", "ratio", "bar", "pass"]))
    for row in rows {
      print(
        line([
          row.benchmark, row.subject, text(row.value), row.unit, row.ratio.map(text) ?? "–", row.bar.map(text) ?? "–",
          row.pass.map { $0 ? "yes" : "NO" } ?? "–",
        ]))
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    let directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().appending(path: "results")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    try (encoder.encode(rows) + Data("\n".utf8)).write(to: directory.appending(path: "\(name).json"))
  }

  private static func text(_ value: Double) -> String { String(format: "%.4g", value) }
}

extension [Double] {
  /// The value below which that share of the sorted values lies.
  func percentile(_ share: Double) -> Double {
    let sorted = sorted()
    return sorted.isEmpty ? .nan : sorted[Swift.min(sorted.count - 1, Int(Double(sorted.count) * share))]
  }

  var median: Double { percentile(0.5) }
}
