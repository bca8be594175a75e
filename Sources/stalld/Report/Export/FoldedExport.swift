/// Folded stacks: `service;frame;frame N`, the outermost frame first, N in whole milliseconds.
///
/// What every flame graph program reads. A stall without a stack is the service's own frame, `(no stack)`.
struct FoldedExport {
  let summary: ReportSummary

  func bytes() -> [UInt8] {
    var lines: [String: Double] = [:]
    var order: [String] = []
    for (share, sum) in StackShare.all(of: summary, perHost: false) {
      let frames = share.frames(summary)
      let names = frames.isEmpty ? ["(no stack)"] : frames.reversed().map(summary.name)
      let line = ([summary.text(share.service)] + names).map(Self.plain).joined(separator: ";")
      if lines[line] == nil { order.append(line) }
      lines[line, default: 0] += sum.milliseconds
    }
    var text: [UInt8] = []
    for line in order {
      text += line.utf8
      // A stall takes a millisecond at least: none is lost by rounding.
      text += " \(max(1, Int(clamping: lines[line]!)))\n".utf8
    }
    return text
  }

  /// A name that ends neither its frame nor its line.
  private static func plain(_ name: String) -> String {
    var plain = String.UnicodeScalarView()
    for scalar in name.unicodeScalars {
      switch scalar {
      case ";": plain.append(":")
      case "\u{0}"..."\u{20}", "\u{7f}"..."\u{a0}", "\u{2028}", "\u{2029}": plain.append(" ")
      default: plain.append(scalar)
      }
    }
    return plain.isEmpty ? "?" : String(plain)
  }
}
