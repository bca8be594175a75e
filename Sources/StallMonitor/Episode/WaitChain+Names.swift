import StallCapture
import StallReport

extension WaitChain {
  /// Reads what a thread waits for.
  ///
  /// - Parameters:
  ///   - probe: The stalled thread.
  ///   - snapshot: What it was met in just now.
  ///   - capture: What takes the stacks of those that are waited for; nil to leave them alone.
  ///   - reader: Makes frames of their addresses.
  init(
    of probe: borrowing ThreadProbe, in snapshot: ThreadSnapshot, with capture: ThreadCapture?, reader: FrameReader
  ) {
    let chain = BlockingChain(of: probe, in: snapshot, with: capture)
    let links = chain.links.enumerated().map { index, link in
      let thread =
        index == 0 ? nil : Report.OtherThread(id: link.id, snapshot: link.snapshot, role: .lockHolder, reader)
      return Link(
        id: link.id, wait: link.wait, waitedFor: link.waitedFor, candidate: link.candidate, thread: thread)
    }
    self.init(links: links, circle: chain.circle)
  }

  /// What names have borne out.
  struct Finding {
    /// What the stalled thread is blocked in, in words.
    var wait: String?
    /// The thread that it waits for.
    var holder: LockHolder?
    /// What it waits for, if it is no thread.
    var waitedFor: WaitedFor?
    /// The threads that are waited for, in that order.
    var threads: [Report.OtherThread] = []
    /// Threads that wait in a cycle: each waits for the next, and the last for the first.
    var deadlock: [Int32] = []
  }

  /// Drops what the names speak against.
  ///
  /// `stack` is the stalled thread's, with names as far as it has any.
  func finding(for stack: [StackFrame], _ namer: FrameNamer) -> Finding {
    var finding = Finding(wait: wait, waitedFor: waitedFor)
    var stack = stack
    for (index, link) in links.enumerated() {
      if var thread = link.thread {
        stack = namer.names(of: thread.stack)
        thread.stack = stack
        thread.state = thread.state ?? link.wait
        finding.threads.append(thread)
      }
      guard let candidate = link.candidate, candidate.fits(namer.libraryFrames(of: stack)) else { return finding }
      let words = (link.wait ?? "") + ": " + candidate.holder.text
      if index > 0 {
        finding.threads[index - 1].state = words
      } else {
        (finding.wait, finding.holder) = (words, candidate.holder)
      }
    }
    // Every link of the circle has been borne out by its stack.
    if let circle { finding.deadlock = links[circle...].map(\.id) }
    return finding
  }
}
