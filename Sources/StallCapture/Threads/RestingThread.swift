/// Checks, without waking a loop's thread, whether it has waited in the same call since the last
/// check.
///
/// The kernel counts how often a thread was given a processor (`schedstat`): unchanged since it was met at rest, it has not left its place.
/// The same count separates the cost of a heartbeat from other work. Belongs to the watchdog's thread.
package struct RestingThread: ~Copyable {
  /// The result of a check.
  package enum Finding {
    /// It waits, and has done nothing since it was last found so.
    case isAtRest
    /// It may be busy: post a heartbeat.
    case mayBeBusy
    case hasEnded
  }

  private let id: Int32
  private let process: ProcessHandle
  private let schedstat: ProcFile?
  private let syscall: ProcFile?
  // The count and the place when the last beat was queued; nil before the first.
  private var asked: (slices: UInt64, place: ThreadProbe.Activity)?
  // The count with which it was last found at rest; nil if a beat has been queued since.
  private var slicesAtRest: UInt64?

  package init(id: Int32, of process: ProcessHandle) {
    self.id = id
    self.process = process
    let directory = process.directory(of: id)
    schedstat = ProcFile(directory + "/schedstat")
    syscall = ProcFile(directory + "/syscall")
  }

  /// Checks the thread, which has answered the last heartbeat.
  package mutating func look() -> Finding {
    let slices = schedstat?.parse { ThreadProbe.Schedule($0)?.timeslices }
    // A resting thread is not checked further.
    if slices == nil, hasEnded { return .hasEnded }
    if let slicesAtRest, slices == slicesAtRest { return .isAtRest }
    return find(slices: slices ?? 0, place: place)
  }

  /// Whether the thread has ended.
  package var hasEnded: Bool { syscall?.threadHasEnded() ?? process.lacksThread(id) }

  private var place: ThreadProbe.Activity { syscall?.parse { ThreadProbe.parseActivity($0) } ?? .unknown }

  /// The rule, with what the kernel says handed in: `slices` is 0 where it does not count.
  package mutating func find(slices: UInt64, place: ThreadProbe.Activity) -> Finding {
    if isAtRest(slices, place) {
      slicesAtRest = slices
      return .isAtRest
    }
    (asked, slicesAtRest) = ((slices, place), nil)
    return .mayBeBusy
  }

  private func isAtRest(_ slices: UInt64, _ place: ThreadProbe.Activity) -> Bool {
    guard slices > 0 else { return false }
    if let slicesAtRest { return slices == slicesAtRest }
    // It ran the beat, and was given a processor for nothing else: it waits for work where it is now and was before.
    guard let asked, slices &- asked.slices <= 1, case .blocked(let call) = place else { return false }
    return SystemCall(call, in: process).isLoopWait && place == asked.place
  }
}
