import ArgumentParser
import Glibc
import StallReport

/// A time that `--since` takes: a moment (RFC 3339), a day, or how long ago (`2h`, `7d`).
struct SinceArgument: ExpressibleByArgument {
  static let allowed =
    "a time such as 2026-11-21T04:35:00Z, a day such as 2026-11-21, or how long ago: 90s, 30min, 2h, 7d, 4w"

  /// Seconds since 1970.
  var seconds: Double
  let text: String

  init?(argument: String) {
    text = argument
    if let time = Timestamp(rfc3339: argument, form: .any) ?? Timestamp(rfc3339: argument + "T00:00:00Z", form: .any) {
      seconds = time.secondsSince1970
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
  case file(String)
  case release(String)

  init(_ argument: String) {
    self = argument.hasPrefix("release:") ? .release(String(argument.dropFirst(8))) : .file(argument)
  }
}
