/// Writes Prometheus's text format, version 0.0.4.
struct ExpositionText {
  enum Kind: String {
    case counter, gauge, histogram
  }

  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  private(set) var bytes: [UInt8] = []

  /// Begins a metric; its samples follow.
  mutating func metric(_ name: StaticString, _ kind: Kind, _ help: StaticString) {
    bytes += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n".utf8
  }

  /// Adds a sample; `suffix` is appended to the metric's name.
  mutating func sample(
    _ name: StaticString, _ labels: [(StaticString, String)], _ number: MetricRow.Number, suffix: StaticString = ""
  ) {
    begin(name, labels, suffix)
    bytes += number.text.utf8
    bytes.append(0x0a)
  }

  /// As Go reads it: `+Inf`, and no `.0` behind whole numbers.
  static func text(_ value: Double) -> String {
    if value.isInfinite { return value < 0 ? "-Inf" : "+Inf" }
    if value.isNaN { return "NaN" }
    let whole = Int64(exactly: value)
    return whole.map { String($0) } ?? value.description
  }

  private mutating func begin(_ name: StaticString, _ labels: [(StaticString, String)], _ suffix: StaticString) {
    for part in [name, suffix] { part.withUTF8Buffer { bytes.append(contentsOf: $0) } }
    for (index, (key, value)) in labels.enumerated() {
      bytes.append(UInt8(ascii: index == 0 ? "{" : ","))
      key.withUTF8Buffer { bytes.append(contentsOf: $0) }
      bytes += "=\"".utf8
      for byte in value.utf8 {
        switch byte {
        case UInt8(ascii: "\\"), UInt8(ascii: "\""): bytes += [UInt8(ascii: "\\"), byte]
        case 0x0a: bytes += "\\n".utf8
        default: bytes.append(byte)
        }
      }
      bytes.append(UInt8(ascii: "\""))
    }
    if !labels.isEmpty { bytes.append(UInt8(ascii: "}")) }
    bytes.append(UInt8(ascii: " "))
  }
}
