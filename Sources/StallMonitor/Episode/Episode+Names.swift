import StallDetection
import StallReport

extension Episode {
  /// Names the frames, and completes what hangs on names: who holds a lock, and what keeps a pool's threads.
  mutating func name(by namer: FrameNamer) {
    name(namer.names) { $0.complete(by: namer) }
  }
}

extension Episode.Sample {
  /// Completes what hangs on names; `stack` has them as far as this process adds any.
  fileprivate mutating func complete(by namer: FrameNamer) {
    if let chain {
      let finding = chain.finding(for: stack, namer)
      (wait, lockHolder, deadlock) = (finding.wait, finding.holder, finding.deadlock)
      threads = finding.threads + threads
      self.chain = nil
    }
    guard let pool else { return }
    threads = threads.filter { thread in
      var judged = thread
      judged.stack = namer.libraryFrames(of: thread.stack)
      return pool.owns(judged)
    }
    if pool == .cooperative, failure == .noServer, let work = Self.otherWork(threads) {
      wait = wait.map { "\($0); \(work)" }
    }
    self.pool = nil
  }

  /// `3 threads run other work, 2 of them in load(_:), 1 in parse()`; nil if there are none.
  private static func otherWork(_ threads: [Report.OtherThread]) -> String? {
    guard !threads.isEmpty else { return nil }
    var counts: [String: Int] = [:]
    for case let frame? in threads.map({ Culprit.frame(of: $0.stack) }) {
      counts[(frame.shortSymbol ?? frame.name).limited(to: 80), default: 0] += 1
    }
    let places = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(4)
    if threads.count == 1 { return "1 thread runs other work" + (places.first.map { ", in \($0.key)" } ?? "") }
    let list = places.enumerated().map { ", \($1.value)\($0 == 0 ? " of them" : "") in \($1.key)" }
    return "\(threads.count) threads run other work" + list.joined()
  }
}
