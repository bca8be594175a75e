/// The stalled time over the days, a character for each span.
enum Sparkline {
  private static let blocks: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

  /// The line with its ends' times below; nil without stalls.
  ///
  /// A stall counts where it began. A span without any is blank.
  static func lines(_ stalls: StallTable, width: Int) -> [String]? {
    var (first, last) = (Double.infinity, -Double.infinity)
    for stall in stalls {
      first = min(first, stall.start)
      last = max(last, stall.start)
    }
    guard first.isFinite, last.isFinite else { return nil }
    let columns = min(max(width, 20), 100)
    var sums = [Double](repeating: 0, count: columns)
    // A column is a second at least.
    let span = max(last - first, Double(columns))
    for stall in stalls {
      let column = Int(clamping: ((stall.start - first) / span * Double(columns)).rounded(.down))
      sums[min(columns - 1, max(0, column))] += stall.milliseconds
    }
    let highest = max(sums.max() ?? 0, .leastNonzeroMagnitude)
    let line = String(
      sums.map { sum in sum == 0 ? " " : blocks[min(7, max(0, Int(clamping: (sum / highest * 8).rounded(.down))))] })
    let (left, right) = (Quantity.minute(first), Quantity.minute(first + span) + " UTC")
    let note =
      "stalled time, at most \(Quantity.duration(highest)) in \(Quantity.duration(span * 1000 / Double(columns)))"
    let gap = max(1, columns - left.utf8.count - right.utf8.count)
    return [note, line, left + String(repeating: " ", count: gap) + right]
  }
}
