import StallReport

/// What a stalled thread waits for, what those threads wait for in turn, and whether they wait in a circle.
///
/// All threads are read before anything is named, which takes long: a lock may be given back meanwhile, and then its holder's stack is
/// not that of a holder any more.
package struct BlockingChain {
  /// The stalled thread, and those that are waited for, in that order.
  package private(set) var links: [Link] = []
  /// Where the circle begins in the links.
  package private(set) var circle: Int?

  /// The longest chain that is followed.
  private static let limit = 16

  /// A thread of the chain, and what it waits for.
  package struct Link {
    package var id: Int32
    package var snapshot: ThreadSnapshot
    package var wait: String?
    package var candidate: LockHolder.Candidate?
    /// What it waits for, if there is no candidate.
    package var waitedFor: WaitedFor?
    fileprivate var thread: BlockedThread?

    /// Whether the thread has not moved since the first check, and still waits for the same one.
    fileprivate var stillWaits: Bool {
      guard let thread, let candidate else { return false }
      return LockHolder.candidate(for: thread.call, of: id, in: thread.process) == candidate && thread.isStillBlocked
    }
  }

  /// Finds the threads that a thread waits for, one after the other.
  ///
  /// - Parameters:
  ///   - probe: The stalled thread.
  ///   - snapshot: What it was met in just now.
  ///   - capture: What takes the stacks of those that are waited for; nil to leave them alone.
  package init(of probe: borrowing ThreadProbe, in snapshot: ThreadSnapshot, with capture: ThreadCapture?) {
    guard case .blocked(let call) = snapshot.activity else { return }
    var link = Link(id: probe.id, snapshot: snapshot, wait: SystemCall(call, of: probe.id, in: probe.process).text)
    link.candidate = LockHolder.candidate(for: call, of: probe.id, in: probe.process)
    link.waitedFor = LockHolder.unnamed(for: call, of: probe.id, in: probe.process)
    // Descriptors and memory were looked up: they are what it waits for only if it has been blocked there all the time.
    if !probe.isStillBlocked(in: call, since: snapshot.runCount) {
      link.wait = SystemCall(call, in: probe.process).shortText
      link.candidate = nil
      link.waitedFor = SystemCall(call, in: probe.process).waitedFor
    }
    if capture != nil, link.candidate != nil {
      link.thread = BlockedThread(probe.id, of: probe.process, call: call, runCount: snapshot.runCount)
    }
    links = [link]
    if let capture { follow(in: probe.process, with: capture) }
  }

  private mutating func follow(in process: ProcessHandle, with capture: ThreadCapture) {
    while links.count <= Self.limit, let last = links.last, last.thread != nil, let next = last.candidate?.holder.thread
    {
      if let start = links.firstIndex(where: { $0.id == next }) {
        // The second check. If none has moved since the first one, all of them were blocked at one moment: when the last of them was
        // checked first.
        if links[start...].allSatisfy({ $0.stillWaits && $0.candidate?.holder.hasTimeout == false }) { circle = start }
        return
      }
      // The thread that stops the monitor waits for this one.
      if process.monitorThreads.contains(next) { return }
      let probe = ThreadProbe(thread: next, of: process)
      var link = Link(id: next, snapshot: capture.capture(probe, stackEnd: 0))
      if case .blocked(let call) = link.snapshot.activity {
        link.wait = SystemCall(call, of: next, in: process).text
        link.candidate = LockHolder.candidate(for: call, of: next, in: process)
        link.thread = BlockedThread(next, of: process, call: call, runCount: link.snapshot.runCount)
        if link.thread == nil { (link.wait, link.candidate) = (SystemCall(call, in: process).shortText, nil) }
      }
      // A stack that was taken after the lock was given back is no holder's.
      guard last.stillWaits else { return }
      links.append(link)
    }
  }
}
