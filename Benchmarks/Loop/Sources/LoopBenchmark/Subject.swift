/// One loop under test: nanoseconds per operation for each row, nil where it has no such thing.
struct Subject {
  var name: String
  var roundTrip: ((_ count: Int) -> Double)?
  var post: ((_ batches: Int, _ batch: Int) -> Double)?
  var selfPost: ((_ batches: Int, _ batch: Int) -> Double)?
  var timerChurn: ((_ pending: Int, _ count: Int) -> Double)?
  var fire: ((_ timers: Int) -> Double)?
  var descriptors: ((_ watched: Int, _ count: Int) -> Double)?
  /// The same with a closure for each descriptor; only of a loop that has closures.
  var descriptorsWithClosures: ((_ watched: Int, _ count: Int) -> Double)?
  var empty: ((_ count: Int) -> Double)?
  /// Signals many sources and performs them in one pass; of a source, and several passes.
  var signalledSources: ((_ sources: Int, _ passes: Int) -> Double)?
  /// Creates a timer, adds it and cancels it.
  var timerLife: ((_ count: Int) -> Double)?
  /// The most timers with which a sweep ends today.
  var mostTimers = 1_000_000
  /// How much slower than the fastest it is known to be at some rows: divides the counts, so that a sweep ends today.
  var timerDivisor = 1
  var descriptorDivisor = 1
}
