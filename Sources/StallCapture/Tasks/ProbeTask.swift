import CLinux
import Synchronization

/// A task of this library's own, for self-tests of the runtime's layouts.
///
/// It runs to its end on the thread that makes it, and never on a thread of the pool. The task stays allocated as long as this object.
final class ProbeTask: Sendable {
  /// The task's address.
  let address: UInt64
  private let task: Task<Void, Never>

  /// Runs a task whose `body` gets the task's address; nil if it could not run at once.
  ///
  /// The task has `name`, if one is given. `depth` moves the stack pointer down by so many bytes.
  init?(name: String? = nil, depth: Int = 0, body: @escaping @Sendable (UInt64) async -> Void) {
    #if compiler(>=6.2)
    let outcome = Outcome()
    task = withUnsafeTemporaryAllocation(byteCount: depth + 16, alignment: 16) { padding in
      // Not to be optimized away.
      outcome.address.store(UInt64(UInt(bitPattern: padding.baseAddress)), ordering: .relaxed)
      outcome.address.store(0, ordering: .relaxed)
      return Task.immediate(name: name) {
        let own = clinux_current_task()
        await body(own)
        outcome.address.store(own, ordering: .relaxed)
      }
    }
    address = outcome.address.load(ordering: .relaxed)
    if address == 0 { return nil }
    #else
    return nil
    #endif
  }

  private final class Outcome: Sendable {
    let address = Atomic<UInt64>(0)
  }
}
