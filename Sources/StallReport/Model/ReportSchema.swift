/// The version of the report contract that this build writes, for readers of reports outside of this module.
package enum ReportSchema {
  /// Whether a report's `event.schema` is of a later minor version: it may have keys and words that this one does not know.
  package static func isLater(_ schema: String) -> Bool {
    guard let (own, other) = numbers(Report.schemaVersion).flatMap({ own in numbers(schema).map { (own, $0) } })
    else { return false }
    return other.major == own.major && other.minor > own.minor
  }

  private static func numbers(_ version: String) -> (major: UInt, minor: UInt)? {
    let parts = version.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, let major = UInt(parts[0]), let minor = UInt(parts[1]) else { return nil }
    return (major, minor)
  }
}
