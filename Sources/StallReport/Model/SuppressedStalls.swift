/// Stalls that were counted instead of reported one by one: `stall.suppressed`.
package struct SuppressedStalls: Sendable, Equatable {
  /// How many.
  package var count: UInt64 = 0
  /// Their durations added up, and the longest, in nanoseconds.
  package var total: UInt64 = 0
  package var longest: UInt64 = 0
  /// The time over which they were counted.
  package var window: UInt64 = 0
  /// They were not reported because of the budget: they need not be alike.
  package var isOverBudget = false

  package init(
    count: UInt64 = 0, total: UInt64 = 0, longest: UInt64 = 0, window: UInt64 = 0, isOverBudget: Bool = false
  ) {
    self.count = count
    self.total = total
    self.longest = longest
    self.window = window
    self.isOverBudget = isOverBudget
  }
}
