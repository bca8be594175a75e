import StallReport

/// Numbers as people read them.
enum Quantity {
  /// `604 ms`, `1.30 s`, `12.5 min`, `3.2 h`, `4.1 d`.
  static func duration(_ milliseconds: Double) -> String {
    guard milliseconds.isFinite else { return "–" }
    let units: [(limit: Double, size: Double, name: String)] = [
      (1000, 1, "ms"), (120_000, 1000, "s"), (7_200_000, 60_000, "min"), (172_800_000, 3_600_000, "h"),
    ]
    for unit in units where milliseconds < unit.limit - unit.size / 2 {
      return "\(number(milliseconds / unit.size, digits: unit.size == 1 ? 0 : 3)) \(unit.name)"
    }
    return "\(number(milliseconds / 86_400_000, digits: 3)) d"
  }

  /// A number of things: `1 stall`, `2 stalls`.
  static func count(_ count: Int, _ thing: String) -> String {
    "\(Self.count(count)) \(thing)\(count == 1 ? "" : "s")"
  }

  /// A whole number with a blank between thousands.
  static func count(_ count: Int) -> String {
    let digits = Array(String(count))
    var result = ""
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index) % 3 == 0, digits[index - 1] != "-" { result += " " }
      result.append(digit)
    }
    return result
  }

  /// A number with so many digits that count, and none behind the point where `digits` is 0.
  static func number(_ value: Double, digits: Int) -> String {
    guard value.isFinite else { return "–" }
    var places = 0
    var scale = 1.0
    while digits > 0, places < digits - 1, abs(value) * scale < 99.5, value != 0 {
      places += 1
      scale *= 10
      if abs(value) >= 9.995, places == 1 { break }
    }
    return fixed(value, places: places)
  }

  /// A number with so many digits behind the point.
  static func fixed(_ value: Double, places: Int) -> String {
    let scale = (0..<places).reduce(1.0) { scale, _ in scale * 10 }
    let scaled = (abs(value) * scale).rounded()
    guard scaled < 9e18 else { return "\(value)" }
    let sign = value < 0 && scaled > 0 ? "-" : ""
    let whole = String(Int(scaled / scale))
    guard places > 0 else { return sign + whole }
    let rest = String(Int(scaled) % Int(scale))
    return sign + whole + "." + String(repeating: "0", count: places - rest.utf8.count) + rest
  }

  /// `2026-11-21 04:35`, in UTC.
  static func minute(_ seconds: Double) -> String {
    let text = Timestamp(secondsSince1970: seconds, rounded: .down)?.text(fractionDigits: 0)
    guard let text, text.utf8.count == 20 else { return "–" }
    return String(text.prefix(16)).replacing("T", with: " ")
  }

  /// `1.5 MiB`.
  static func bytes(_ count: Int) -> String {
    var value = Double(count)
    for unit in ["B", "KiB", "MiB", "GiB"] {
      if value < 1024 { return unit == "B" ? "\(count) B" : "\((value * 10).rounded() / 10) \(unit)" }
      value /= 1024
    }
    return "\((value * 10).rounded() / 10) TiB"
  }
}
