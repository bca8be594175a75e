import StallReport

/// Finds the holder of the lock that a blocked thread waits for.
///
/// Only where it is certain: the word that is waited on has the shape of a known lock (``LockLayouts``), its owner is a live
/// thread of this process, and the waiter's stack, where it has names, is in that lock's function.
extension LockHolder {
  /// A thread that is waited for, unless the waiter's stack speaks against it.
  package struct Candidate: Equatable, Sendable {
    package var holder: LockHolder
    package var function: Function

    /// Which function's frame the waiter's stack must have.
    package enum Function: Sendable { case any, mutex, readLock, writeLock }
  }

  /// Finds the thread that `waiter` may wait for, or nil.
  ///
  /// Reads memory that is certain to be the lock's only while `waiter` is blocked there: the caller checks afterwards whether it still is.
  package static func candidate(
    for call: ThreadProbe.BlockedCall, of waiter: Int32, in process: ProcessHandle
  ) -> Candidate? {
    guard let futex = SystemCall(call, in: process).futex else { return nil }
    var found = LockSearch(futex: futex, waiter: waiter, process: process).candidate()
    found?.holder.hasTimeout = futex.hasTimeout
    return found
  }

  /// What `waiter` waits for if there is no candidate.
  static func unnamed(
    for call: ThreadProbe.BlockedCall, of waiter: Int32, in process: ProcessHandle
  ) -> WaitedFor {
    let system = SystemCall(call, in: process)
    guard let futex = system.futex, system.waitedFor == .threadOrProcess else { return system.waitedFor }
    // C++'s futures say of no futex that it is private.
    if process.isPrivate(futex.address) { return .thread }
    let search = LockSearch(futex: futex, waiter: waiter, process: process)
    return search.isHeldElsewhere() ? .process : .threadOrProcess
  }
}
