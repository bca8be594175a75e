import Glibc
import Synchronization

/// Hands lines over to `stalld run`: the watchdog's side of a thread that does the talking.
///
/// The watchdog never waits for that thread but at the end: what it hands over lies in a bounded queue.
final class AgentSink: ReportSink, Sendable {
  /// What is longer is left out.
  static let longestDetail = 200 << 10
  /// How long the end may take, and then the writing of what is left, in nanoseconds.
  private static let farewell: UInt64 = 1_000_000_000
  private static let lastWrite: UInt64 = 500_000_000

  /// What the watchdog hands over.
  enum Item {
    case line(OutgoingLine)
    case detail([UInt8])
  }

  /// What the watchdog waits for.
  enum Request: Equatable {
    /// Until this time lines are to be acknowledged; then the rest goes into the file.
    case settle(by: UInt64)
    /// The same, and then no more.
    case close(by: UInt64)
  }

  private struct Inbox {
    var items: [Item] = []
    var bytes = 0
    var lines: UInt64 = 0
    var request: Request?
  }

  private let inbox = Mutex(Inbox())
  let bell = AgentBell()
  private let isDone = WatchdogSemaphore()
  private let dropped = Atomic<UInt64>(0)
  /// Lines that were written, and how many of those were so when none was left.
  private let written = Atomic<UInt64>(0)
  private let settled = Atomic<UInt64>(0)
  private let wantsNews = Atomic<Bool>(false)
  private let thread = Mutex<pthread_t?>(nil)
  /// Wakes the watchdog.
  private let news: @Sendable () -> Void

  /// `news` is called on the agent's thread: what was asked for has come.
  init(news: @escaping @Sendable () -> Void) { self.news = news }

  /// Starts the thread.
  func start(_ makeClient: @escaping @Sendable (AgentSink) -> AgentClient) throws(StallMonitorError) {
    let handle = try OwnThreads.start(name: "stall-agent") { [self] in
      makeClient(self).run()
      isDone.post()
    }
    thread.withLock { $0 = handle }
  }

  // MARK: The watchdog's side

  func write(_ line: OutgoingLine) {
    written.add(1, ordering: .releasing)
    put(.line(line), size: line.bytes.count)
  }

  var namesFrames: Bool { true }

  var takesDetails: Bool { true }

  func writeDetail(_ bytes: [UInt8]) {
    if bytes.count <= Self.longestDetail { put(.detail(bytes), size: bytes.count) }
  }

  func takeDropped() -> UInt64 { dropped.exchange(0, ordering: .relaxed) }

  func flush() {}

  var wantsFlush: Bool { false }

  var isSettled: Bool {
    if allAreSettled { return true }
    wantsNews.store(true, ordering: .sequentiallyConsistent)
    return allAreSettled
  }

  private var allAreSettled: Bool {
    settled.load(ordering: .sequentiallyConsistent) == written.load(ordering: .sequentiallyConsistent)
  }

  func settle(within limit: UInt64) {
    let deadline = MonotonicClock.now() + limit
    request(.settle(by: deadline))
    _ = isDone.wait(until: deadline + Self.lastWrite)
  }

  func close() {
    let handle = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    guard let handle else { return }
    // An earlier request may have been answered too late.
    let deadline = MonotonicClock.now() + Self.farewell
    request(.close(by: deadline))
    var hasEnded = false
    while !hasEnded, isDone.wait(until: deadline + Self.lastWrite) { hasEnded = isClosed.load(ordering: .acquiring) }
    // A disk that does not answer keeps that thread, and nobody else.
    if hasEnded { pthread_join(handle, nil) } else { pthread_detach(handle) }
  }

  private let isClosed = Atomic<Bool>(false)

  private func put(_ item: Item, size: Int) {
    inbox.withLock { inbox in
      inbox.items.append(item)
      inbox.bytes += size
      if case .line = item { inbox.lines += 1 }
      // Only while the thread is kept from running, by a disk.
      while inbox.items.count > Spool.memoryLines || inbox.bytes > Spool.memoryBytes {
        switch inbox.items.removeFirst() {
        case .line(let line):
          inbox.bytes -= line.bytes.count
          lose(1 + line.droppedBefore)
        case .detail(let bytes): inbox.bytes -= bytes.count
        }
      }
    }
    bell.ring()
  }

  private func request(_ request: Request) {
    inbox.withLock { $0.request = request }
    bell.ring()
  }

  /// Whether the thread has not taken all that was handed over.
  var hasBacklog: Bool { inbox.withLock { !$0.items.isEmpty } }

  // MARK: The thread's side

  /// All that was handed over since the last call, how many lines ever were, and what is waited for.
  func take() -> (items: [Item], lines: UInt64, request: Request?) {
    inbox.withLock { inbox in
      defer { (inbox.items, inbox.bytes, inbox.request) = ([], 0, nil) }
      return (inbox.items, inbox.lines, inbox.request)
    }
  }

  /// So many lines are lost; the next one says so.
  func lose(_ count: UInt64) { dropped.add(count, ordering: .relaxed) }

  /// Nothing is left of the first so many lines.
  func settle(_ lines: UInt64) {
    guard settled.exchange(lines, ordering: .sequentiallyConsistent) != lines else { return }
    if wantsNews.exchange(false, ordering: .sequentiallyConsistent) { news() }
  }

  /// Answers ``Request/settle(by:)``.
  func answer() { isDone.post() }

  /// Answers ``Request/close(by:)``; the thread ends next.
  func willEnd() { isClosed.store(true, ordering: .releasing) }

  /// Tells the watchdog that there is something new for it.
  func tell() { news() }
}
