import StallReport

/// What is known of the task that a thread runs.
package struct RunningTask: Sendable, Equatable {
  /// Where it is in memory: the same for all of its life, and another one's afterwards.
  package var address: UInt64
  /// The runtime's number of the task: the low 32 bits.
  package var id: UInt32
  /// The number of its priority (`TaskPriority.rawValue`).
  package var priority: UInt8
  /// What the program has named it.
  package var name: String?
  /// The type of the actor that the thread runs for, if it has no executor of its own.
  package var actor: String?
  /// It was made by `async let` or in a task group.
  package var isChild: Bool
}

extension TaskLayout {
  /// The task that a thread runs, or nil if it runs none.
  ///
  /// `threadPointer` is the thread's own `clinux_thread_pointer()`. The thread may go on at any moment, so all of it is read through the kernel, and it
  /// counts only if the thread still runs the task afterwards. Allocates for the name alone.
  package func runningTask(threadPointer: UInt64) -> RunningTask? {
    let process = OwnProcess()
    guard let task = currentTask.read(threadPointer: threadPointer), isTask(task),
      let (flags, id) = process.load(task &+ Self.flags, as: (UInt32, UInt32).self)
    else { return nil }
    let found = RunningTask(
      address: task, id: id, priority: UInt8(truncatingIfNeeded: flags >> 8), name: name?.name(of: task),
      actor: actor?.actorType(threadPointer: threadPointer),
      isChild: flags & Self.childFlag != 0)
    guard currentTask.read(threadPointer: threadPointer) == task, isTask(task),
      process.load(task &+ Self.id, as: UInt32.self) == id
    else { return nil }
    return found
  }

  /// Whether a task lies at the address.
  func isTask(_ address: UInt64) -> Bool {
    address != 0 && address % 16 == 0 && OwnProcess().load(address, as: UInt64.self) == taskClass
  }
}
