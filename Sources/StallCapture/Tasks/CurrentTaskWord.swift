import CLinux
import CUnwind
import Synchronization

/// The place where each thread has the task of Swift concurrency that it runs.
///
/// The runtime keeps it in a thread-local variable. If the runtime was loaded when the process started, the variable has the same distance from the
/// thread pointer on each thread, so that another thread can read it.
package struct CurrentTaskWord: Sendable, Equatable {
  /// The distance from the thread pointer: negative where thread-local variables lie below it.
  package let offset: Int64

  package init(offset: Int64) { self.offset = offset }

  /// Finds the place with tasks of its own, which run on the calling thread and nowhere else.
  ///
  /// Words that hold the first task are candidates. Copies of its address on the stack are excluded by further tasks, which run at other depths of
  /// the stack, and by the time after them. Nil if not exactly one word is left, as when the runtime was loaded later, and with a compiler
  /// before 6.2, which cannot run a task at once.
  ///
  /// Costs less than a millisecond. The calling thread is prepared to read memory.
  package static func find(in process: ProcessHandle) -> CurrentTaskWord? {
    guard clinux_tasks_are_here() else { return nil }
    let before = clinux_current_task()
    let base = UInt64(clinux_thread_pointer())
    let search = Search(in: process)
    // All stay alive, so that no two have the same address.
    var probes: [ProbeTask] = []
    for depth in [0, 1040, 2336, 528] {
      guard let probe = ProbeTask(depth: depth, body: { search.keep(where: $0, below: base) }) else { return nil }
      probes.append(probe)
    }
    search.keep(where: before, below: base)
    guard let found = withExtendedLifetime(probes, { search.candidates.withLock { $0 } }), found.count == 1 else {
      return nil
    }
    return CurrentTaskWord(offset: found[0])
  }

  /// The address of the task that a thread runs, 0 if it runs none, or nil if the word cannot be read.
  ///
  /// The thread may end or continue at any moment, and the task may be freed before the address is
  /// used: read it only through the kernel.
  package func read(threadPointer: UInt64, in process: ProcessHandle) -> UInt64? {
    Self.value(threadPointer, offset, in: process)
  }

  /// The word of a thread.
  func address(threadPointer: UInt64) -> UInt64 { threadPointer &+ UInt64(bitPattern: offset) }

  private static func value(_ base: UInt64, _ offset: Int64, in process: ProcessHandle) -> UInt64? {
    process.load(base &+ UInt64(bitPattern: offset), as: UInt64.self)
  }

  /// The words that have held each task so far.
  private final class Search: Sendable {
    /// Nil before the first task.
    let candidates = Mutex<[Int64]?>(nil)
    private let process: ProcessHandle

    init(in process: ProcessHandle) { self.process = process }

    func keep(where task: UInt64, below base: UInt64) {
      candidates.withLock { known in
        known =
          known?.filter { value(base, $0, in: process) == task }
          ?? ThreadLocalWords.offsets(of: task, near: base, in: process)
      }
    }
  }
}
