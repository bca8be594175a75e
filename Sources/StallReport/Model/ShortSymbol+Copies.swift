/// Copies and parts that GCC and LLVM make of functions in C.
extension ShortSymbol {
  /// `parse` from `parse.constprop.0.cold`.
  ///
  /// No name in the source of C has a dot. What GCC and LLVM put behind the name of a function when they copy it or split a
  /// part off is a word and a number. Names of other languages have dots, too (`main.parse`): they stay.
  static func withoutCopyMarks(_ symbol: String) -> String {
    guard symbol.utf8.contains(UInt8(ascii: ".")) else { return symbol }
    let words = symbol.utf8.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
    func isNumber(_ word: Substring.UTF8View) -> Bool { word.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } }
    func isWord(_ word: Substring.UTF8View) -> Bool {
      let isPlain = word.allSatisfy {
        ($0 >= 0x30 && $0 <= 0x39) || ($0 | 0x20 >= 0x61 && $0 | 0x20 <= 0x7a) || $0 == 0x5f
      }
      return isPlain && !isNumber(word)
    }
    guard words.count > 2, isWord(words[0]), isWord(words[1]), !words[2].isEmpty, isNumber(words[2]) else {
      return symbol
    }
    return String(words[0]) ?? symbol
  }
}
