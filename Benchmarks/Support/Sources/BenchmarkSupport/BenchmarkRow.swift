import Foundation

/// One row of a benchmark's table, and of its JSON file.
public struct BenchmarkRow: Encodable {
  /// What is measured.
  public var benchmark: String
  /// Whose value it is.
  public var subject: String
  /// The measured value, in ``unit``.
  public var value: Double
  /// The unit of the value.
  public var unit: String
  /// The value divided by that of the row's peer in the same run, where there is one.
  public var ratio: Double?
  /// The target (`target` in the file): the highest accepted ratio where there is one, else the highest accepted value.
  public var bar: Double?
  /// Whether the target is met.
  public var pass: Bool?

  /// Makes a row.
  ///
  /// `pass` is for a row that is judged by something else than its own numbers.
  public init(
    benchmark: String, subject: String, value: Double, unit: String, ratio: Double? = nil, bar: Double? = nil,
    pass: Bool? = nil
  ) {
    self.benchmark = benchmark
    self.subject = subject
    self.value = value
    self.unit = unit
    self.ratio = ratio
    self.bar = bar
    self.pass = pass ?? bar.map { (ratio ?? value) <= $0 }
  }

  private enum Key: String, CodingKey {
    case benchmark, subject, value, unit, ratio, pass
    case bar = "target"
  }

  /// Encodes all members, those without a value as null.
  public func encode(to encoder: any Encoder) throws {
    // Nulls are written, so that every row has the same keys.
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
