import CLinux
import PlatformLibc
import StallCapture
import Synchronization

/// The work of the output thread: writes what the watchdog enqueues.
protocol OutputClient: AnyObject {
  /// Works until the sink is closed.
  func run()
}

/// The watchdog's side of the output thread: a bounded queue of lines and samples.
///
/// The watchdog never waits for the output thread but in `settle` and `close`, which are bounded. So a destination that accepts nothing, or a
/// disk that does not answer, delays neither detection nor the service manager's watchdog.
///
/// It has many properties because two threads meet here: what each of them asks without waiting is
/// an atomic number of its own.
final class OutputSink: ReportSink, Sendable {
  /// The most that waits: lines and samples, and their bytes.
  static let itemLimit = 256
  static let byteLimit = 1 << 20
  /// Longer samples are left out.
  static let longestDetail = 200 << 10
  /// How long the end may take, and then the writing of what is left, in nanoseconds.
  private static let farewell: UInt64 = 1_000_000_000
  private static let lastWrite: UInt64 = 500_000_000

  /// What the watchdog hands over.
  enum Item {
    case line(OutgoingLine)
    case detail(StallDetail)

    var size: Int {
      switch self {
      case .line(let line): line.bytes.count
      case .detail(let detail): detail.bytes.count
      }
    }
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
  let waker = PollWaker()
  private let isDone = WakeSemaphore()
  private let dropped = Atomic<UInt64>(0)
  /// Lines that were written, and how many of those were so when none was left.
  private let written = Atomic<UInt64>(0)
  private let settled = Atomic<UInt64>(0)
  private let wantsNews = Atomic<Bool>(false)
  private let isClosed = Atomic<Bool>(false)
  private let thread = Mutex<clinux_thread_t?>(nil)
  /// Wakes the watchdog.
  private let news: @Sendable () -> Void

  let namesFrames: Bool
  let details: DetailDestination
  let writtenDetails = WrittenDetails()

  /// Makes a sink without a thread.
  ///
  /// `news` is called on the output thread when what the watchdog asked for has come.
  init(
    namesFrames: Bool = false, details: DetailDestination = .none, news: @escaping @Sendable () -> Void
  ) {
    self.namesFrames = namesFrames
    self.details = details
    self.news = news
  }

  /// Starts the output thread.
  ///
  /// Call it on the watchdog: both threads then have one descriptor table. `makeClient` is called there as well.
  func start(name: StaticString, _ makeClient: (OutputSink) -> any OutputClient) throws(StallMonitorError) {
    let client = ClientReference(client: makeClient(self))
    do throws(OwnThreads.Failure) {
      let handle = try OwnThreads.start(name: name) { [isDone] in
        client.client.run()
        isDone.post()
      }
      thread.withLock { $0 = handle }
    } catch {
      throw StallMonitorError(error)
    }
  }

  // Unchecked: made by the starter, used by the output thread alone.
  private struct ClientReference: @unchecked Sendable { let client: any OutputClient }

  // MARK: The watchdog's side

  func write(_ line: OutgoingLine) {
    written.add(1, ordering: .releasing)
    put(.line(line))
  }

  func writeDetail(_ detail: StallDetail) {
    if details != .none, detail.bytes.count <= Self.longestDetail { put(.detail(detail)) }
  }

  func takeDropped() -> UInt64 { dropped.exchange(0, ordering: .relaxed) }

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
    let last = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    guard let last else { return }
    // A disk that does not answer blocks only that thread.
    if hasEnded { clinux_thread_join(last) } else { clinux_thread_detach(last) }
  }

  private func put(_ item: Item) {
    inbox.withLock { inbox in
      inbox.items.append(item)
      inbox.bytes += item.size
      if case .line = item { inbox.lines += 1 }
      // Only while the output thread is kept from running, by a disk or a pipe.
      while inbox.items.count > Self.itemLimit || inbox.bytes > Self.byteLimit {
        let oldest = inbox.items.removeFirst()
        inbox.bytes -= oldest.size
        guard case .line(let line) = oldest else { continue }
        inbox.hasLost = true
        lose(1 + line.droppedBefore)
      }
    }
    waker.wake()
  }

  private func request(_ request: Request) {
    inbox.withLock { $0.request = request }
    waker.wake()
  }

  /// Whether the output thread has not taken all that was handed over.
  var hasBacklog: Bool { inbox.withLock { !$0.items.isEmpty } }

  // MARK: The output thread's side

  /// What was handed over since the last call.
  struct Delivery {
    var items: [Item]
    /// Lines had to be dropped before these.
    var hasLost: Bool
    /// How many lines were ever handed over.
    var lines: UInt64
    var request: Request?
  }

  /// Takes all that was handed over since the last call, when there is memory to work on it.
  func take() -> Delivery {
    AvailableMemory.wait()
    return inbox.withLock { inbox in
      defer { (inbox.items, inbox.bytes, inbox.hasLost, inbox.request) = ([], 0, false, nil) }
      return Delivery(items: inbox.items, hasLost: inbox.hasLost, lines: inbox.lines, request: inbox.request)
    }
  }

  /// Counts `count` lines as lost; the next line reports them.
  func lose(_ count: UInt64) { if count > 0 { dropped.add(count, ordering: .relaxed) } }

  /// Notes that nothing is left of the first so many lines.
  func settle(_ lines: UInt64) {
    guard settled.exchange(lines, ordering: .sequentiallyConsistent) != lines else { return }
    if wantsNews.exchange(false, ordering: .sequentiallyConsistent) { news() }
  }

  /// Answers ``Request/settle(by:)``.
  func answer() { isDone.post() }

  /// Answers ``Request/close(by:)``; the thread ends next.
  func willEnd() { isClosed.store(true, ordering: .releasing) }

  /// Wakes the watchdog, for which there is something new.
  func tell() { news() }
}
