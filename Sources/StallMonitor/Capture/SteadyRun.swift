/// Tells a thread that computes from one that is only just not blocked.
///
/// A signal makes a large send or write that is under way end short, and the handler cannot put that right. Such a call
/// blocks again and again; so only a thread that has had 3 ms of processor time without giving it up once is signalled (a 4 MiB
/// send over loopback runs for more than one). Any other will be met blocked, and is read.
struct SteadyRun {
  /// The processor time without a voluntary switch that makes a run steady, in nanoseconds.
  static let needed: UInt64 = 3_000_000

  private let needed: UInt64
  private var start: (switches: UInt64, processorTime: UInt64)?

  init(needed: UInt64 = SteadyRun.needed) { self.needed = needed }

  enum Finding {
    /// It computes.
    case steady
    /// It has given its processor up in the meantime.
    case alternating
    /// It has not had enough processor time to tell.
    case waiting
  }

  /// Looks at a thread that is ready to run.
  ///
  /// About 20 us.
  mutating func look(at probe: borrowing ThreadProbe) -> Finding {
    // Time first: what is read after it cannot make a run look longer than it was.
    guard let processorTime = probe.processorTime(), let switches = probe.voluntarySwitches() else {
      // A kernel that does not count them: what is left is that it was seen running each time.
      return .steady
    }
    guard let start, start.switches == switches else {
      let finding = start == nil ? Finding.waiting : .alternating
      start = (switches, processorTime)
      return finding
    }
    return processorTime - start.processorTime >= needed ? .steady : .waiting
  }
}
