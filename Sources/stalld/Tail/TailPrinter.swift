import StallReport

/// Makes readable lines of reports.
struct TailPrinter {
  /// The width of the column for causes.
  static let causeWidth = 9

  var usesColor: Bool
  var showsStack: Bool
  /// Whether stacks have all frames, and names are whole.
  var showsAll: Bool

  /// One line with its newline, and the stack's below it if it is asked for.
  func text(of report: TailEntry) -> String {
    let time = String(report.time.prefix { $0 != "Z" }.prefix(23)) + "Z"
    var line = time.printable.padded(to: 24) + "  "
    line += report.service.printable.padded(to: 16) + "  "
    line += color(report.event.printable.padded(to: 10), Self.colors[report.event]) + "  "
    line += color(Quantity.duration(report.durationMilliseconds).padded(to: 10, right: true), "1") + "  "
    line += report.cause.printable.padded(to: Self.causeWidth) + "  "
    let unnamed = "(no function" + (report.wait.map { ": " + $0 } ?? "") + ")"
    line += (report.culprit.map(name) ?? unnamed).printable
    if let place = report.place { line += " (\(place.printable))" }
    if !report.loop.isEmpty, report.loop != "main" { line += " [\(report.loop.printable)]" }
    if let count = report.suppressed { line += ", \(count) more" }
    line += "\n"
    guard showsStack else { return line }
    for frame in stack(of: report) { line += "    " + color(frame.printable, "2") + "\n" }
    if report.framesOmitted > 0 {
      line +=
        "    " + color("… \(report.framesOmitted) \(report.framesOmitted == 1 ? "frame" : "frames") omitted", "2")
        + "\n"
    }
    return line
  }

  private func stack(of report: TailEntry) -> [String] {
    let folds =
      showsAll ? [] : FoldedFrames.inside(report.stack.map { ($0.symbol, $0.module) }, responsible: report.culprit)
    var lines = report.stack.map(text)
    for fold in folds.reversed() { lines.replaceSubrange(fold.range, with: ["… " + fold.text]) }
    return lines
  }

  private func text(of frame: TailEntry.Frame) -> String {
    let module = frame.module.lastPathPart ?? "?"
    let mark = frame.isAsync ? "async " : ""
    guard !frame.symbol.isEmpty else { return "\(mark)\(module)+\(frame.offset ?? "?")" }
    return "\(mark)\(name(frame.symbol)) (\(frame.place ?? module))"
  }

  private func name(_ symbol: String) -> String { showsAll ? symbol : ShortSymbol.shorten(symbol) }

  private static let colors = ["fatal": "1;31", "ongoing": "31", "started": "33", "suppressed": "2"]

  private func color(_ text: String, _ code: String?) -> String {
    guard usesColor, let code else { return text }
    return "\u{1b}[\(code)m\(text)\u{1b}[0m"
  }
}
