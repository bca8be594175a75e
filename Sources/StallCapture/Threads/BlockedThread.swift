/// A thread that was found blocked, and a check whether it has been blocked there ever since.
package final class BlockedThread {
  package let id: Int32
  package let call: ThreadProbe.BlockedCall
  private let probe: ThreadProbe
  var process: ProcessHandle { probe.process }
  private let runCount: UInt64

  /// Nil unless the thread waits in the same call and has not run since the count was taken.
  package init?(_ id: Int32, of process: ProcessHandle, call: ThreadProbe.BlockedCall, runCount: UInt64?) {
    guard let runCount else { return nil }
    self.id = id
    self.call = call
    self.runCount = runCount
    probe = ThreadProbe(thread: id, of: process)
    guard isStillBlocked else { return nil }
  }

  /// Nil unless the thread is blocked in a system call.
  package convenience init?(_ id: Int32, of process: ProcessHandle) {
    let probe = ThreadProbe(thread: id, of: process)
    let count = probe.runCount()
    guard case .blocked(let call) = probe.activity() else { return nil }
    self.init(id, of: process, call: call, runCount: count)
  }

  /// Whether it has not run since.
  package var isStillBlocked: Bool { probe.isStillBlocked(in: call, since: runCount) }
}

extension ThreadProbe {
  /// Whether the thread still waits in that call and has not run since the count was taken.
  borrowing func isStillBlocked(in call: BlockedCall, since count: UInt64?) -> Bool {
    count != nil && activity() == .blocked(call) && runCount() == count
  }
}
