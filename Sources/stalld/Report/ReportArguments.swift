import ArgumentParser
import Glibc
import StallReport

/// A time that `--since` takes: a moment (RFC 3339), a day, or how long ago (`2h`, `7d`).
struct SinceArgument: ExpressibleByArgument {
  static let allowed =
    "a time such as 2026-11-21T04:35:00Z, a day such as 2026-11-21, or how long ago: 90s, 30m, 2h, 7d, 4w"

  /// Seconds since 1970.
  var seconds: Double

  init?(argument: String) {
    if let time = Timestamp(rfc3339: argument, form: .any) ?? Timestamp(rfc3339: argument + "T00:00:00Z", form: .any) {
      seconds = time.secondsSince1970
    } else if let ago = DurationArgument.milliseconds(argument) {
      var now = timespec()
      clock_gettime(CLOCK_REALTIME, &now)
      seconds = Double(now.tv_sec) - ago / 1000
    } else {
      return nil
    }
  }
}

/// A duration with its unit.
struct DurationArgument: ExpressibleByArgument {
  static let allowed = "a number with ms, s, m, min, h, d or w, such as 250ms or 1.5s"

  var milliseconds: Double

  init?(argument: String) {
    guard let milliseconds = Self.milliseconds(argument) else { return nil }
    self.milliseconds = milliseconds
  }

  /// Nil if the text is no duration.
  static func milliseconds(_ text: String) -> Double? {
    let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    let sizes = [
      "ms": 1.0, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    ]
    guard let value = Double(number), let size = sizes[String(text.dropFirst(number.count))] else { return nil }
    return value * size
  }
}

/// A side of `--diff`: a file, or `release:VERSION` of the files behind.
enum DiffArgument {
  case file(String)
  case release(String)

  init(_ argument: String) {
    self = argument.hasPrefix("release:") ? .release(String(argument.dropFirst(8))) : .file(argument)
  }
}
