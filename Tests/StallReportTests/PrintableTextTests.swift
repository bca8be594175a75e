import StallReport
import Testing

struct PrintableTextTests {
  @Test(
    arguments: [
      ("", ""), ("Pool.take() -> Connection", "Pool.take() -> Connection"), ("漢字 😀 é", "漢字 😀 é"),
      ("a\nb\u{0}\u{1b}[31m\u{7f}", #"a\u{a}b\u{0}\u{1b}[31m\u{7f}"#), ("\u{85}\u{9b}31m", #"\u{85}\u{9b}31m"#),
      ("a\u{202e}b\u{2066}", #"a\u{202e}b\u{2066}"#), ("\u{200d}\u{feff}\u{e0041}", #"\u{200d}\u{feff}\u{e0041}"#),
      ("\u{2028}\u{2029}\u{e000}\u{378}", #"\u{2028}\u{2029}\u{e000}\u{378}"#),
      // Letters that nobody sees.
      ("\u{115f}\u{3164}", #"\u{115f}\u{3164}"#),
    ])
  func harmfulCharactersAreEscapes(_ text: String, _ expected: String) {
    #expect(text.printable == expected)
    #expect(expected.printable == expected)
  }

  @Test func longTextIsCut() {
    #expect("abc".printable(limit: 3) == "abc")
    #expect("abcd".printable(limit: 3) == "abc…")
    #expect("a\u{9b}bc".printable(limit: 2) == #"a\u{9b}…"#)
    #expect("".printable(limit: 0) == "")
  }
}
