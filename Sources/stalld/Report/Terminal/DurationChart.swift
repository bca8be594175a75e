import Glibc

/// How many stalls lasted how long, on a scale on which each step is about twice the one before.
struct DurationChart {
  struct Bar {
    /// In milliseconds: from, and below.
    var from: Double
    var to: Double
    var count: Int
  }

  /// Without gaps; empty without a stall whose own duration is known.
  private(set) var bars: [Bar] = []

  init(_ stalls: StallTable) {
    var counts: [Int: Int] = [:]
    for stall in stalls where !stall.isSummary && stall.milliseconds > 0 {
      counts[Self.step(of: stall.milliseconds), default: 0] += 1
    }
    guard let first = counts.keys.min(), let last = counts.keys.max() else { return }
    bars = (first...last).map { Bar(from: Self.edge($0), to: Self.edge($0 + 1), count: counts[$0] ?? 0) }
  }

  /// The lines of the bars, at most `width` columns wide.
  func lines(width: Int) -> [String] {
    guard !bars.isEmpty else { return [] }
    let labels = bars.map { "\(Quantity.duration($0.from)) – \(Quantity.duration($0.to))" }
    let counts = bars.map { Quantity.count($0.count) }
    let labelWidth = labels.map(TerminalText.width).max() ?? 0
    let countWidth = counts.map(\.utf8.count).max() ?? 0
    let room = min(60, max(8, width - labelWidth - countWidth - 4))
    let highest = bars.map(\.count).max() ?? 1
    return bars.indices.map { index in
      let label = TerminalText.padded(labels[index], to: labelWidth)
      let count = TerminalText.padded(counts[index], to: countWidth)
      return "\(label)  \(count)  \(Self.bar(Double(bars[index].count) / Double(highest), room))"
    }
  }

  /// Eighths of a column; what is not nothing is seen.
  private static func bar(_ share: Double, _ columns: Int) -> String {
    guard share > 0 else { return "" }
    let eighths = max(1, Int((share * Double(columns) * 8).rounded()))
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
    return String(repeating: "█", count: eighths / 8) + rest
  }

  // Edges are 1, 2, 5 times a power of ten.
  private static func edge(_ step: Int) -> Double {
    let decade = Int((Double(step) / 3).rounded(.down))
    return [1.0, 2, 5][step - decade * 3] * pow(10, Double(decade))
  }

  private static func step(of milliseconds: Double) -> Int {
    var step = Int((log10(milliseconds) * 3).rounded(.down)) - 1
    while edge(step + 1) <= milliseconds { step += 1 }
    return step
  }
}
