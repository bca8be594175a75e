/// What the stalled thread waits for, the stacks of those that it waits for, and whether they wait in a circle.
package struct WaitChain: Sendable {
  /// A thread of the chain, and what it waits for.
  package struct Link: Sendable {
    package var id: Int32
    package var wait: String?
    package var waitedFor: WaitedFor?
    package var candidate: LockHolder.Candidate?
    /// The thread as it was met; nil of the stalled one.
    package var thread: Report.OtherThread?

    package init(
      id: Int32, wait: String?, waitedFor: WaitedFor?, candidate: LockHolder.Candidate?, thread: Report.OtherThread?
    ) {
      self.id = id
      self.wait = wait
      self.waitedFor = waitedFor
      self.candidate = candidate
      self.thread = thread
    }
  }

  package let links: [Link]
  /// Where the circle begins in the links.
  package let circle: Int?

  package init(links: [Link], circle: Int?) { (self.links, self.circle) = (links, circle) }

  /// What the stalled thread is blocked in, in words, without the thread that it waits for; nil if it is in no call.
  package var wait: String? { links.first?.wait }

  /// What it waits for, if it is no thread.
  package var waitedFor: WaitedFor? { links.first?.waitedFor }

  /// The thread that it waits for, unless the names speak against it.
  package var holder: Int32? { links.first?.candidate?.holder.thread }

  /// The stalled thread, and those that are waited for.
  package var threads: [Int32] { links.map(\.id) }
}
