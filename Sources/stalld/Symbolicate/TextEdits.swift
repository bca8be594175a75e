import StallMonitor
import StallReport

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

extension JSONText.Value {
  /// The range to remove for a member, including a comma; nil if there is no such member.
  func removal(of key: String) -> Range<Int>? {
    guard case .object(let members, _) = self, let index = members.firstIndex(where: { $0.key == key }) else {
      return nil
    }
    let member = members[index].member
    if index > 0 { return members[index - 1].member.upperBound..<member.upperBound }
    return members.count > 1 ? member.lowerBound..<members[1].member.lowerBound : member
  }
}
