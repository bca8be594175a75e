import StallReport

/// What is known of the task that a thread runs.
package struct RunningTask: Sendable, Equatable {
  /// Where it is in memory: the same for all of its life, and another one's afterwards.
  package var address: UInt64
  /// The runtime's number of the task: the low 32 bits.
  package var id: UInt32
  /// The number of its priority (`TaskPriority.rawValue`); nil if it is not known.
  package var priority: UInt8?
  /// What the program has named it.
  package var name: String?
  /// The type of the actor that the thread runs for, if it has no executor of its own.
  package var actor: String?
  /// It was made by `async let` or in a task group.
  package var isChild: Bool
}

extension TaskLayout {
  /// The address of the task that a thread runs, 0 if it runs none, or nil if that cannot be read.
  ///
  /// The task may be freed before the address is used: read it only through the kernel.
  package func currentTask(threadPointer: UInt64) -> UInt64? {
    currentTaskWord.read(threadPointer: threadPointer, in: process)
  }

  /// The task that a thread runs, or nil if it runs none.
  ///
  /// `threadPointer` is the thread's own `clinux_thread_pointer()`. The thread may continue at any
  /// moment, so all of it is read through the kernel, and it counts only if the thread still runs
  /// the task afterwards. Allocates only for the names.
  package func runningTask(threadPointer: UInt64) -> RunningTask? {
    guard let task = currentTask(threadPointer: threadPointer), var found = self.task(at: task) else { return nil }
    found.actor = actor?.actorType(threadPointer: threadPointer, in: process)
    return currentTask(threadPointer: threadPointer) == task && isTask(task, id: found.id) ? found : nil
  }

  /// The number of the task that a thread runs, or nil if it runs none.
  package func runningTaskID(threadPointer: UInt64) -> UInt32? {
    guard let task = currentTask(threadPointer: threadPointer),
      let id = process.load(task &+ Self.id, as: UInt32.self), isTask(task, id: id)
    else { return nil }
    return currentTask(threadPointer: threadPointer) == task ? id : nil
  }

  /// The task at an address, without its actor; nil if there is none.
  ///
  /// Read through the kernel, since the task may end at any moment.
  package func task(at address: UInt64) -> RunningTask? {
    guard isTask(address), let (flags, id) = process.load(address &+ Self.flags, as: (UInt32, UInt32).self) else {
      return nil
    }
    // If that place is not known, the flags have the priority of a task that was enqueued.
    let enqueued = UInt8(truncatingIfNeeded: flags >> 8)
    let found = RunningTask(
      address: address, id: id,
      priority: priority?.priority(of: address, in: process) ?? (enqueued == 0 ? nil : enqueued),
      name: name?.name(of: address, in: process), isChild: flags & Self.childFlag != 0)
    return isTask(address, id: id) ? found : nil
  }

  /// Whether a task lies at the address.
  func isTask(_ address: UInt64) -> Bool {
    address != 0 && address % 16 == 0 && process.load(address, as: UInt64.self) == taskClass
  }

  /// Whether the task of this number still lies there.
  private func isTask(_ address: UInt64, id: UInt32) -> Bool {
    isTask(address) && process.load(address &+ Self.id, as: UInt32.self) == id
  }
}
