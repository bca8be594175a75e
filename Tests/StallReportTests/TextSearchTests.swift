import StallReport
import Testing

struct TextSearchTests {
  @Test(arguments: ["", "a", "ab", "aab", "aaab", "xaab", "aabx", "é", "aé", "bééb", "éb"])
  func findsTheFirstPlace(text: String) {
    for sought in ["a", "ab", "aab", "b", "é", "éb", "x"] {
      let found = text.firstRange(ofText: sought)
      #expect(found == text.firstRange(of: sought), "\(sought) in \(text)")
      #expect(text.contains(text: sought) == (found != nil))
    }
    #expect(text.firstRange(ofText: "") == nil)
  }
}
