/// The texts of a page, each once, and bounded: who writes hostile names shall not make a page that no browser opens.
struct PageTexts {
  /// Of one text, in characters.
  static let longest = 400
  /// Of all, in bytes as JSON has them.
  static let roomForAll = 2 << 20

  private(set) var all: [String] = []
  private(set) var size = 0
  private var numbers: [String: Int] = [:]
  /// Numbers of texts of the summary's table.
  private var known: [UInt32: Int] = [:]

  /// What represents a text that has no space.
  private static let omitted = "…"

  init() { _ = number(of: "") }

  var isFull: Bool { size > Self.roomForAll }

  mutating func number(of text: String) -> Int {
    if let number = numbers[text] { return number }
    let isCut = text.unicodeScalars.dropFirst(Self.longest).isEmpty == false
    let short =
      isFull
      ? Self.omitted : isCut ? String(String.UnicodeScalarView(text.unicodeScalars.prefix(Self.longest))) + "…" : text
    let number = numbers[short, default: all.count]
    if number == all.count {
      numbers[short] = number
      all.append(short)
      // The worst: each character as an escape.
      size += short.unicodeScalars.reduce(3) { $0 + ($1.isASCII && $1.properties.isAlphabetic ? 1 : 6) }
    }
    if !isFull { numbers[text] = number }
    return number
  }

  mutating func number(of text: UInt32, in summary: ReportSummary) -> Int {
    if let number = known[text] { return number }
    let number = number(of: summary.text(text))
    known[text] = number
    return number
  }
}
