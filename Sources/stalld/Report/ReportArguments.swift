import ArgumentParser
import Glibc
import StallReport

/// A time that `--since` takes: a moment (RFC 3339), a day of UTC or of another offset, or how long ago (`2h`, `7d`).
struct SinceArgument: ExpressibleByArgument {
  static let allowed =
    "a time with its offset such as 2026-11-21T04:35:00+01:00, a day such as 2026-11-21 (from 00:00 UTC) or 2026-11-21+01:00, or how long ago: 90s, 30min, 2h, 7d, 4w"

  /// Seconds since 1970.
  var seconds: Double
  /// As it is written; a day also with the time at which it begins.
  private(set) var text: String

  init?(argument: String) {
    text = argument
    let day = argument.prefix("2026-11-21".count)
    let midnight = "\(day)T00:00:00" + (day == argument ? "Z" : argument.dropFirst(day.count))
    if let time = Timestamp(rfc3339: argument, form: .any) ?? Timestamp(rfc3339: midnight, form: .any) {
      seconds = time.secondsSince1970
      if day == argument { text += " (00:00 UTC)" }
    } else if let ago = DurationArgument(argument: argument) {
      var now = timespec()
      clock_gettime(CLOCK_REALTIME, &now)
      seconds = Double(now.tv_sec) - ago.milliseconds / 1000
    } else {
      return nil
    }
  }
}

/// A side of `--diff`: a file, or `release:VERSION` of the files behind.
enum DiffArgument {
  static let releasePrefix = "release:"

  case file(String)
  case release(String)

  init(_ argument: String) {
    let isRelease = argument.hasPrefix(Self.releasePrefix)
    self = isRelease ? .release(String(argument.dropFirst(Self.releasePrefix.count))) : .file(argument)
  }
}
