import ArgumentParser
import StallReport

/// A duration with its unit, as an option takes it.
struct DurationArgument: ExpressibleByArgument {
  static let allowed = "a number with us, ms, s, min, h, d or w, such as 250ms or 1.5s"

  // Periods of reports may be weeks; settings have no such unit.
  private static let units: [DurationText.Unit] =
    DurationText.units + [(name: "w", nanoseconds: Int64(7 * 86_400_000_000_000))]

  var milliseconds: Double
  let text: String

  init?(argument: String) {
    text = argument
    guard let (number, unit) = QuantityNotation.split(argument),
      let size = Self.units.first(where: { $0.name == unit })?.nanoseconds
    else { return nil }
    milliseconds = number * Double(size) / 1e6
  }
}
