import ArgumentParser

/// A duration with its unit, as an option takes it.
struct DurationArgument: ExpressibleByArgument {
  static let allowed = "a number with us, ms, s, min, h, d or w, such as 250ms or 1.5s"

  private static let milliseconds = [
    "us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
  ]

  var milliseconds: Double

  init?(argument: String) {
    guard let (number, unit) = QuantityNotation.split(argument), let size = Self.milliseconds[unit] else { return nil }
    milliseconds = number * size
  }
}
