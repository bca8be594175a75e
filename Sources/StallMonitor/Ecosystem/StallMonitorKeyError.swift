#if SwiftConfiguration
/// The invalid values of a configuration, by their keys.
public struct StallMonitorKeyError: Error, Sendable, Equatable, CustomStringConvertible {
  /// An invalid value.
  public struct Problem: Sendable, Equatable {
    /// The key, relative to the reader.
    public var key: String
    /// The value that was found.
    public var value: String
    /// The values that are allowed, in words.
    public var allowed: String
  }

  /// All invalid values.
  public var problems: [Problem]

  /// The problems for people, in one line.
  public var description: String {
    problems.map { "\($0.key)=\($0.value) is invalid; allowed: \($0.allowed)" }.joined(separator: ". ")
  }
}
#endif
