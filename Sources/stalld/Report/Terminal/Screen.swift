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

  /// Asks standard output and the environment: `COLUMNS`, `NO_COLOR` (https://no-color.org), `TERM`.
  static func current() -> Screen {
    let isTerminal = isatty(STDOUT_FILENO) == 1
    var size = winsize()
    // The number is macro arithmetic in C.
    let answer = ioctl(STDOUT_FILENO, UInt(0x5413), &size)
    let known = answer == 0 && size.ws_col > 0 ? Int(size.ws_col) : nil
    let ofVariable = variable("COLUMNS").flatMap { Int($0) }.flatMap { $0 > 0 ? $0 : nil }
    let hasColours = isTerminal && (variable("NO_COLOR") ?? "").isEmpty && variable("TERM") != "dumb"
    return Screen(
      isTerminal: isTerminal, width: isTerminal ? max(40, known ?? ofVariable ?? 80) : 0, hasColours: hasColours)
  }

  /// The text in a style, if there are colours.
  func styled(_ text: String, _ style: Style) -> String {
    hasColours ? "\u{1b}[\(style.rawValue)m\(text)\u{1b}[0m" : text
  }

  private static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
}
