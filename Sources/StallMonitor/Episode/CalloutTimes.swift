/// How long the callouts of a turn took, in nanoseconds; up to one moment, or to the turn's end.
struct CalloutTimes: Sendable, Equatable {
  /// How many there were.
  var count: UInt64
  /// How long the latest has lasted.
  var age: UInt64
  /// The longest of the others, and which one it was, from 1.
  var longest: UInt64 = 0
  var longestNumber: UInt64 = 0

  /// How long the longest of all took.
  var longestOfAll: UInt64 { max(age, longest) }
}
