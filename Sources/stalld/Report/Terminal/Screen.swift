import Glibc

/// What standard output is: a terminal with a width and perhaps colours, or something that text is written to.
struct Screen {
  var isTerminal: Bool
  /// Columns; 0 if lines may have any length.
  var width: Int
  var hasColours: Bool

  /// The kind of emphasis that text has.
  enum Style: String {
    case heading = "1"
    case faint = "2"
    case bad = "31"
    case good = "32"
  }

  /// Asks the environment (`COLUMNS`, `NO_COLOR` of https://no-color.org, `TERM`) and standard output.
  static func current() -> Screen {
    let isTerminal = isatty(STDOUT_FILENO) == 1
    var size = winsize()
    // The number is macro arithmetic in C.
    let answer = ioctl(STDOUT_FILENO, UInt(0x5413), &size)
    let known = answer == 0 && size.ws_col > 0 ? Int(size.ws_col) : nil
    let ofVariable = variable("COLUMNS").flatMap { Int($0) }.flatMap { $0 > 0 ? $0 : nil }
    let hasColours = isTerminal && (variable("NO_COLOR") ?? "").isEmpty && variable("TERM") != "dumb"
    return Screen(
      isTerminal: isTerminal, width: isTerminal ? ofVariable ?? known ?? 80 : 0, hasColours: hasColours)
  }

  /// The text in lines that fit, each in the style.
  func wrapped(_ text: String, _ style: Style? = nil) -> [String] {
    var lines: [String] = []
    for word in text.split(separator: " ") {
      if let last = lines.last, width == 0 || TerminalText.width(last) + 1 + TerminalText.width(String(word)) <= width {
        lines[lines.count - 1] = "\(last) \(word)"
      } else {
        lines.append(width > 0 ? TerminalText.cut(String(word), to: width) : String(word))
      }
    }
    return style.map { style in lines.map { styled($0, style) } } ?? lines
  }

  /// The text in a style, if there are colours.
  func styled(_ text: String, _ style: Style) -> String {
    hasColours ? "\u{1b}[\(style.rawValue)m\(text)\u{1b}[0m" : text
  }

  private static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
