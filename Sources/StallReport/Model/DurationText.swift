/// Durations as people write them: `250ms`, `1.5s`, `2 min`, `14d`.
package enum DurationText {
  package typealias Unit = (name: String, nanoseconds: Int64)

  /// The units of settings, the longest first.
  package static let units: [Unit] = [("d", 86_400_000_000_000), ("h", 3_600_000_000_000)] + sentUnits

  /// The units, the shortest first, for messages.
  package static let unitNames = units.reversed().map(\.name).joined(separator: ", ")

  /// The units that the agent sends to services: those of earlier builds read no others.
  package static let sentUnits: [Unit] = [
    ("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000),
  ]

  /// Nil if the text is no duration in one of the units.
  ///
  /// A number without a unit is invalid, because there is no common default unit.
  package static func parse(_ text: String, units: [Unit] = units) -> Duration? {
    guard let (number, unit) = QuantityNotation.split(text),
      let nanoseconds = units.first(where: { $0.name == unit })?.nanoseconds
    else { return nil }
    let product = (number * Double(nanoseconds)).rounded()
    return product < 9e18 ? .nanoseconds(Int64(product)) : nil
  }

  /// The duration in the largest unit that needs no fraction; a day is `24h`.
  package static func text(_ duration: Duration) -> String { text(duration, units: units) }

  /// The same in one of these units.
  package static func text(_ duration: Duration, units: [Unit]) -> String {
    let (seconds, attoseconds) = duration.components
    let nanoseconds = seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    if nanoseconds == 0 { return "0s" }
    let isOneDay = nanoseconds == 86_400_000_000_000
    let unit = units.first { nanoseconds % $0.nanoseconds == 0 && !(isOneDay && $0.name == "d") }
    return unit.map { "\(nanoseconds / $0.nanoseconds)\($0.name)" } ?? "\(Double(nanoseconds) / 1000)us"
  }
}
