/// A value behind a ``WordLock``.
///
/// The standard `Mutex` would do, were it not that thread sanitizer cannot see into the standard library's lock and
/// reports each use as a race.
final class Guarded<Value>: @unchecked Sendable {
  // @unchecked: the value is touched only under the lock.
  private let lock = WordLock()
  @exclusivity(unchecked) private var value: Value

  init(_ value: sending Value) {
    self.value = value
  }

  /// A table of the whole process.
  static func table(_ value: sending Value) -> Guarded {
    let table = Guarded(value)
    table.lock.registerForForks()
    return table
  }

  /// Releases the lock in the child of a fork, even if another thread of the parent held it.
  func reset() { lock.reset() }

  func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}
