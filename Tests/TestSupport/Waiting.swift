import Glibc
public import Testing

/// Waits until a condition holds, and says whether it does.
///
/// The time limit is for what never comes: a busy machine takes its time.
public func eventually(within seconds: Double = 60, _ condition: () throws -> Bool) rethrows -> Bool {
  let deadline = ContinuousClock.now + .seconds(seconds)
  while try !condition() {
    guard ContinuousClock.now < deadline else { return try condition() }
    usleep(2000)
  }
  return true
}

/// Waits until a condition holds; a condition that never does is an error.
public func waitUntil(
  _ comment: @autoclosure () -> Comment? = nil, within seconds: Double = 60,
  sourceLocation: SourceLocation = #_sourceLocation, _ condition: () throws -> Bool
) throws {
  let holds = try eventually(within: seconds, condition)
  try #require(holds, comment(), sourceLocation: sourceLocation)
}
