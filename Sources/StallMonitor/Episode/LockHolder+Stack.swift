import StallCapture
import StallReport

extension LockHolder.Candidate {
  /// How many frames from the wait itself the lock's function lies at most.
  private static let innermost = 6

  /// Whether the waiting thread is in the function of that lock.
  func fits(_ stack: [StackFrame]) -> Bool {
    let names = stack.prefix(Self.innermost).compactMap(\.symbol)
    switch function {
    case .any: return true
    case .mutex:
      // Not named for lack of time is not nameless.
      if stack.prefix(Self.innermost).contains(where: \.isPending) { return false }
      if names.contains(where: { $0.contains(text: "pthread_mutex_") || $0.contains(text: "pthread_cond_") }) {
        return true
      }
      // The C library's inner functions have no names, and pthread_mutex_lock(3) jumps to some. Nor has a stripped static
      // executable any. The shape is still recognised.
      let library = stack.prefix(Self.innermost).prefix { $0.owner == .system }
      return names.isEmpty || (library.last.map { $0.symbol == nil } ?? false)
    // Only the function distinguishes these words from others.
    case .readLock: return names.contains { $0.contains(text: "pthread_rwlock_") && $0.contains(text: "rdlock") }
    case .writeLock: return names.contains { $0.contains(text: "pthread_rwlock_") && $0.contains(text: "wrlock") }
    }
  }
}
