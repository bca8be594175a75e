/// How long the callouts of a turn took, in nanoseconds; up to one moment, or to the turn's end.
package struct CalloutTimes: Sendable, Equatable {
  /// How many there were.
  package var count: UInt64
  /// How long the latest has lasted.
  package var age: UInt64
  /// The longest of the others, and which one it was, from 1.
  package var longest: UInt64 = 0
  package var longestNumber: UInt64 = 0

  package init(count: UInt64, age: UInt64, longest: UInt64 = 0, longestNumber: UInt64 = 0) {
    self.count = count
    self.age = age
    self.longest = longest
    self.longestNumber = longestNumber
  }

  /// How long the longest of all took.
  package var longestOfAll: UInt64 { max(age, longest) }
}
