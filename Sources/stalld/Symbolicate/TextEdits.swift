import StallMonitor

/// Replacements in a text, applied together.
struct TextEdits {
  private var edits: [(range: Range<Int>, bytes: [UInt8])] = []

  var growth: Int { edits.reduce(0) { $0 + $1.bytes.count - $1.range.count } }

  mutating func replace(_ range: Range<Int>, with bytes: [UInt8]) { edits.append((range, bytes)) }

  mutating func insert(_ bytes: [UInt8], at position: Int) { replace(position..<position, with: bytes) }

  func apply(to text: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var position = 0
    for edit in edits.sorted(by: { $0.range.lowerBound < $1.range.lowerBound }) {
      result += text[position..<edit.range.lowerBound] + edit.bytes
      position = edit.range.upperBound
    }
    return result + text[position...]
  }
}

extension JSONText {
  /// A text as a JSON string.
  static func quoted(_ value: String) -> [UInt8] {
    var member = JSONLine()
    member.member("", value)
    return Array(member.bytes.dropFirst("\"\":".utf8.count))
  }
}
