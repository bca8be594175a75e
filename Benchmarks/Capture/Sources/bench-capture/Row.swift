/// One row of the benchmark's table, and of its JSON file.
struct Row: Encodable {
  var benchmark: String
  var subject: String
  var value: Double
  var unit: String
  /// Against the row's peer in the same run, where there is one.
  var ratio: Double?
  /// The most that is promised: of the ratio where there is one, else of the value.
  var bar: Double?

  var pass: Bool? { bar.map { (ratio ?? value) <= $0 } }

  private enum Key: String, CodingKey { case benchmark, subject, value, unit, ratio, bar, pass }

  func encode(to encoder: any Encoder) throws {
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
