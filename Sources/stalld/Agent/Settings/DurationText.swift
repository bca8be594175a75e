/// Times as people write them: `250ms`, `1.5s`, `14d`.
enum DurationText {
  static let units: [(name: String, nanoseconds: Int64)] = [
    ("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000),
    ("ms", 1_000_000), ("us", 1000),
  ]

  /// Nil if the text is no time; no unit is none: nobody agrees on the default one.
  static func parse(_ text: String) -> Duration? {
    guard let (number, unit) = QuantityNotation.split(text),
      let nanoseconds = units.first(where: { $0.name == unit })?.nanoseconds
    else { return nil }
    let product = (number * Double(nanoseconds)).rounded()
    return product < 9e18 ? .nanoseconds(Int64(product)) : nil
  }

  /// In the largest unit that needs no fraction; a day is 24h, as people say.
  static func text(_ duration: Duration) -> String {
    let (seconds, attoseconds) = duration.components
    let nanoseconds = seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    if nanoseconds == 0 { return "0s" }
    if nanoseconds == 86_400_000_000_000 { return "24h" }
    let unit = units.first { nanoseconds % $0.nanoseconds == 0 }
    return unit.map { "\(nanoseconds / $0.nanoseconds)\($0.name)" } ?? "\(Double(nanoseconds) / 1000)us"
  }
}
