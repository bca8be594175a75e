import StallMonitor
import StallReport

/// Stalls and stalled time, by service and cause.
///
/// A stall is counted once, as soon as its severity is known: at its first line of level `error`, otherwise at its end.
struct StallCounts {
  enum Severity: String, CaseIterable {
    case warn, error
  }

  /// Who has stalled: a service by its own word, and where it runs by the kernel's, so that no one else's numbers can be raised.
  struct Source: Hashable {
    var service: String
    var place = ""
    var user: UInt32?
  }

  struct Series: Hashable {
    var source: Source
    var cause: String
  }

  struct Count {
    /// By severity.
    var warnings: UInt64 = 0
    var errors: UInt64 = 0
    var seconds = 0.0
  }

  /// The number of services that are counted separately, which the users share, because clients choose the names.
  static let serviceLimit = 1000
  /// Services with a cause: a scrape's text stays below a megabyte or so.
  static let seriesLimit = 2000
  /// The name for services above the limit, and for unknown causes.
  static let other = "other"
  static let openLimit = 8192

  private(set) var counts: [Series: Count] = [:]
  private var sources: Set<Source> = []
  /// How many of them are each user's, by ``Peer/owner``: a logged-in user may have many numbers.
  private var shares = SharedAllowance<UInt32>()
  private var counted = CountedStalls(limit: openLimit)

  /// Takes a line; true if it changed a number.
  mutating func record(_ line: ReportLine) -> Bool {
    switch Report.Event(rawValue: line.event) {
    case .ongoing where line.isError: return count(line, endsStall: false)
    case .ended, .fatal:
      _ = count(line, endsStall: true)
    case .suppressed:
      counts[series(of: line), default: Count()].warnings += Self.suppressedStalls(line)
    case .started, .ongoing, nil: return false
    }
    // A hostile number must not make the sum useless for ever.
    let seconds = line.durationMilliseconds / 1000
    if seconds.isFinite, seconds > 0, seconds < 1e9 { counts[series(of: line), default: Count()].seconds += seconds }
    return true
  }

  private mutating func count(_ line: ReportLine, endsStall: Bool) -> Bool {
    let stall = "\(line.userID) \(line.stallID)"
    if endsStall ? counted.remove(stall, of: line.owner) : counted.contains(stall, of: line.owner) { return false }
    if line.isError {
      counts[series(of: line), default: Count()].errors += 1
    } else {
      counts[series(of: line), default: Count()].warnings += 1
    }
    if !endsStall { counted.insert(stall, of: line.owner) }
    return true
  }

  private mutating func series(of line: ReportLine) -> Series {
    let other = Source(service: Self.other)
    var source = Source(service: line.service.limited(to: 200), place: line.place.limited(to: 300), user: line.userID)
    if !sources.contains(source) {
      if shares.take(for: line.owner, limit: Self.serviceLimit) {
        sources.insert(source)
      } else {
        source = other
      }
    }
    let series = Series(source: source, cause: Cause(rawValue: line.cause)?.rawValue ?? Self.other)
    if counts.count < Self.seriesLimit || counts[series] != nil { return series }
    return Series(source: other, cause: series.cause)
  }

  /// How many stalls a summary represents.
  private static func suppressedStalls(_ line: ReportLine) -> UInt64 {
    // Of a line with thousands of frames, a few bytes are read.
    guard let tally = line.parts?.tally, let text = try? JSONText(Array(line.bytes[tally])),
      let count = text.integer(text.root["count"]), count > 0, count < 1_000_000_000
    else { return 0 }
    return UInt64(count)
  }
}
