import Glibc

/// Texts of reports, each kept once, in one piece of memory.
///
/// Number 0 is the empty text, which represents none.
struct TextTable {
  private var bytes: [UInt8] = []
  /// Where each text ends.
  private var ends: [UInt32] = [0]
  private var index = HashIndex()

  /// The longest text that is kept; the rest is cut off.
  static let longestText = 4096

  /// How many texts there are, the empty one included.
  var count: Int { ends.count }

  /// The text with a number.
  subscript(_ number: UInt32) -> String { String(decoding: bytes[range(number)], as: UTF8.self) }

  func isEmpty(_ number: UInt32) -> Bool { number == 0 }

  /// The number of a text, which is kept if it is new.
  mutating func number(of text: UnsafeBufferPointer<UInt8>) -> UInt32 {
    let text = UnsafeBufferPointer(rebasing: text.prefix(Self.longestText))
    guard let start = text.baseAddress, !text.isEmpty else { return 0 }
    let hash = WordHash.hash(text)
    let known = bytes.withUnsafeBufferPointer { all in
      index.find(hash) { number in
        let range = range(number)
        return range.count == text.count && memcmp(all.baseAddress! + range.lowerBound, start, text.count) == 0
      }
    }
    if let known { return known }
    let number = UInt32(ends.count)
    bytes.append(contentsOf: text)
    ends.append(UInt32(bytes.count))
    index.insert(number, hash)
    return number
  }

  /// The number of a text, which is kept if it is new.
  mutating func number(of text: String) -> UInt32 {
    var text = text
    return text.withUTF8 { number(of: $0) }
  }

  /// The number of a text of another table.
  mutating func number(of number: UInt32, in other: TextTable) -> UInt32 {
    other.bytes.withUnsafeBufferPointer { all in
      self.number(of: UnsafeBufferPointer(rebasing: all[other.range(number)]))
    }
  }

  private func range(_ number: UInt32) -> Range<Int> {
    number == 0 ? 0..<0 : Int(ends[Int(number) - 1])..<Int(ends[Int(number)])
  }
}
