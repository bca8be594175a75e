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
    var hasLost = false
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
  private let client = Mutex<ClientReference?>(nil)
  /// The number of the thread that talks, times two, and one more while it waits.
  private let turn = Atomic<Int>(0)
  /// Wakes the watchdog.
  private let news: @Sendable () -> Void

  /// `news` is called on the agent's thread: what was asked for has come.
  init(news: @escaping @Sendable () -> Void) { self.news = news }

  /// Starts the thread.
  func start(_ makeClient: @escaping @Sendable (AgentSink) -> AgentClient) throws(StallMonitorError) {
    client.withLock { $0 = ClientReference(client: makeClient(self)) }
    try startThread(0)
  }

  private func startThread(_ number: Int) throws(StallMonitorError) {
    let handle = try OwnThreads.start(name: "stall-agent") { [self] in
      guard let client = client.withLock({ $0 })?.client, client.run(as: number) else { return }
      self.client.withLock { $0 = nil }
      isDone.post()
    }
    thread.withLock { $0 = handle }
  }

  // Unchecked: used by one thread at a time, which `turn` sees to.
  private struct ClientReference: @unchecked Sendable { let client: AgentClient }

  /// Wakes the thread; or puts another in its place, if it sleeps in a poll that nobody can end, because the host has closed and replaced what it
  /// waits for.
  ///
  /// The old one is left asleep. It touches nothing if it ever wakes.
  private func ring() {
    guard !bell.ring() else { return }
    let turn = turn.load(ordering: .sequentiallyConsistent)
    let next = turn / 2 + 1
    // One that does not wait sees that it was rung.
    guard turn % 2 == 1,
      self.turn.compareExchange(expected: turn, desired: 2 * next, ordering: .sequentiallyConsistent).exchanged
    else { return }
    let old = thread.withLock { $0 }
    // Without a thread, the next line's ring tries again.
    guard (try? startThread(next)) != nil else {
      return self.turn.store(2 * next + 1, ordering: .sequentiallyConsistent)
    }
    if let old { pthread_detach(old) }
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
    guard thread.withLock({ $0 != nil }) else { return }
    // An earlier request may have been answered too late.
    let deadline = MonotonicClock.now() + Self.farewell
    request(.close(by: deadline))
    var hasEnded = false
    while !hasEnded, isDone.wait(until: deadline + Self.lastWrite) { hasEnded = isClosed.load(ordering: .acquiring) }
    // It may be another thread's than before the request.
    let last = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    guard let handle = last else { return }
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
          inbox.hasLost = true
          lose(1 + line.droppedBefore)
        case .detail(let bytes): inbox.bytes -= bytes.count
        }
      }
    }
    ring()
  }

  private func request(_ request: Request) {
    inbox.withLock { $0.request = request }
    ring()
  }

  /// Whether the thread has not taken all that was handed over.
  var hasBacklog: Bool { inbox.withLock { !$0.items.isEmpty } }

  // MARK: The thread's side

  /// All that was handed over since the last call, whether lines had to be dropped, how many ever were, and what is waited for.
  func take() -> (items: [Item], hasLost: Bool, lines: UInt64, request: Request?) {
    inbox.withLock { inbox in
      defer { (inbox.items, inbox.bytes, inbox.hasLost, inbox.request) = ([], 0, false, nil) }
      return (inbox.items, inbox.hasLost, inbox.lines, inbox.request)
    }
  }

  /// The thread goes to sleep; false if there is something for it.
  func willWait(_ number: Int) -> Bool {
    turn.store(2 * number + 1, ordering: .sequentiallyConsistent)
    return !bell.isRung
  }

  /// It is awake again; false if another has taken its place.
  func didWait(_ number: Int) -> Bool {
    turn.compareExchange(expected: 2 * number + 1, desired: 2 * number, ordering: .sequentiallyConsistent).exchanged
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
