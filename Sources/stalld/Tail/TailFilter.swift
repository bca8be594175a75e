import Glibc

/// Which reports `stalld tail` shows.
struct TailFilter {
  /// A shell's pattern for the service; nil is every one.
  var service: String?
  /// Empty: every one.
  var causes: Set<String> = []
  var leastMilliseconds = 0.0

  func accepts(_ report: TailEntry) -> Bool {
    if let service, fnmatch(service, report.service, 0) != 0 { return false }
    if !causes.isEmpty, !causes.contains(report.cause) { return false }
    return report.durationMilliseconds >= leastMilliseconds
  }
}
