import StallCapture
import StallReport

/// A blocking chain with names: what the stalled thread waits for, the stacks of those that it waits for, and a deadlock.
struct WaitChain {
  /// What the stalled thread is blocked in, in words.
  private(set) var wait: String?
  /// The thread that it waits for.
  private(set) var holder: LockHolder?
  /// What it waits for, if no thread is named.
  private(set) var waitedFor: WaitedFor?
  /// The threads that are waited for, in that order.
  private(set) var threads: [Report.OtherThread] = []
  /// Threads that wait in a cycle: each waits for the next, and the last for the first.
  private(set) var deadlock: [Int32] = []

  private let chain: BlockingChain

  /// Reads what a thread waits for.
  ///
  /// - Parameters:
  ///   - probe: The stalled thread.
  ///   - snapshot: What it was met in just now.
  ///   - capture: What takes the stacks of those that are waited for; nil to leave them alone.
  init(of probe: borrowing ThreadProbe, in snapshot: ThreadSnapshot, with capture: ThreadCapture?) {
    chain = BlockingChain(of: probe, in: snapshot, with: capture)
  }

  /// Names the frames, and drops what the names speak against.
  ///
  /// `stack` is the stalled thread's.
  mutating func resolve(stack: [StackFrame], with resolver: FrameResolver) {
    guard let first = chain.links.first else { return }
    (wait, waitedFor) = (first.wait, first.waitedFor)
    var stack = stack
    for (index, link) in chain.links.enumerated() {
      if index > 0 {
        var thread = Report.OtherThread(id: link.id, snapshot: link.snapshot, role: .lockHolder)
        stack = (try? link.snapshot.backtrace.get()).map { resolver.resolve($0) } ?? []
        thread.stack = stack
        thread.state = thread.state ?? link.wait
        threads.append(thread)
      }
      guard let candidate = link.candidate, candidate.fits(resolver.libraryFrames(of: stack)) else { return }
      let words = (link.wait ?? "") + ": " + candidate.holder.text
      if index > 0 { threads[index - 1].state = words } else { (wait, holder) = (words, candidate.holder) }
    }
    // Every link of the circle has been borne out by its stack.
    if let circle = chain.circle { deadlock = chain.links[circle...].map(\.id) }
  }
}
