/// A thread that was found blocked, and a check whether it has been blocked there ever since.
package final class BlockedThread {
  package let id: Int32
  package let call: ThreadProbe.BlockedCall
  private let probe: ThreadProbe
  private let timeslices: UInt64

  /// Nil unless the thread waits in the same call and has not run since its timeslices were
  /// counted.
  package init?(_ id: Int32, call: ThreadProbe.BlockedCall, timeslices: UInt64?) {
    guard let timeslices else { return nil }
    self.id = id
    self.call = call
    self.timeslices = timeslices
    probe = ThreadProbe(thread: id)
    guard isStillBlocked else { return nil }
  }

  /// Nil unless the thread is blocked in a system call.
  package convenience init?(_ id: Int32) {
    let probe = ThreadProbe(thread: id)
    let slices = probe.schedule()?.timeslices
    guard case .blocked(let call) = probe.activity() else { return nil }
    self.init(id, call: call, timeslices: slices)
  }

  /// Whether it has not run since.
  package var isStillBlocked: Bool { probe.isStillBlocked(in: call, since: timeslices) }
}

extension ThreadProbe {
  /// Whether the thread still waits in that call and has not run since its timeslices were counted.
  borrowing func isStillBlocked(in call: BlockedCall, since timeslices: UInt64?) -> Bool {
    timeslices != nil && activity() == .blocked(call) && schedule()?.timeslices == timeslices
  }
}
