import CLinux
import PlatformLibc
import StallCapture
import StallReport
import Synchronization

/// The thread that names stalls and makes their reports, and the queue by which the watchdog hands them over.
///
/// Names take long: of a large program, a second. The watchdog waits for none of it.
final class ReporterThread: Sendable {
  /// The most that waits, in bytes: what comes then goes without its stacks.
  private static let byteLimit = 4 << 20
  /// The most that waits: what comes then is lost, and counted.
  private static let itemLimit = 1024
  /// After which time without work the memory for names is given back, in nanoseconds.
  private static let idleTime: UInt64 = 30_000_000_000
  /// How long names are waited for when the watch ends, and then the thread, in nanoseconds.
  private static let namingTimeAtEnd: UInt64 = 1_000_000_000
  private static let longestEnd = Duration.seconds(5)

  private enum Item {
    case update(StallUpdate, size: Int)
    case freeze(Report)
    /// So many stalls, which lasted so long together, of which only this one is known.
    case lost(UInt64, lasting: UInt64, like: StallUpdate)
    case tune(window: UInt64, budget: Int)
    /// Sends all summaries.
    case summarize
  }

  private struct Inbox {
    var items: [Item] = []
    var bytes = 0
    /// When names are no longer waited for; nil before the watch ends.
    var latest: UInt64?
    var isAbandoned = false
  }

  private let inbox = Mutex(Inbox())
  private let semaphore = WakeSemaphore()
  private let hasEnded = WakeSemaphore()
  private let lost = Atomic<UInt64>(0)
  private let thread = Mutex<clinux_thread_t?>(nil)

  /// Starts the thread.
  ///
  /// Call it on the watchdog: both threads then have one descriptor table.
  func start(_ reporter: StallReporter) throws(StallMonitorError) {
    let reference = ReporterReference(reporter: reporter)
    do throws(OwnThreads.Failure) {
      let handle = try OwnThreads.start(name: "stall-names") { [self] in
        run(reference.reporter)
        hasEnded.post()
      }
      thread.withLock { $0 = handle }
    } catch {
      throw StallMonitorError(error)
    }
  }

  // Unchecked: made by the starter, used by the thread alone.
  private struct ReporterReference: @unchecked Sendable { let reporter: StallReporter }

  // MARK: The watchdog's side

  /// Hands over what has happened to a stall; returns at once.
  func post(_ update: StallUpdate) {
    var update = update
    let size = update.episode.size
    let isFull = inbox.withLock { $0.bytes + size > Self.byteLimit }
    if isFull { update.episode.dropStacks() }
    post(.update(update, size: isFull ? update.episode.size : size))
  }

  /// Reports that the whole process was kept from running.
  func post(freeze report: Report) { post(.freeze(report)) }

  /// Counts stalls of which nothing is known but how long they lasted together.
  func post(lost count: UInt64, lasting total: UInt64, like update: StallUpdate) {
    post(.lost(count, lasting: total, like: update))
  }

  /// Changes what is reported, from the next stall on.
  func tune(window: UInt64, budget: Int) { post(.tune(window: window, budget: budget)) }

  /// Sends all summaries of what has been handed over.
  func summarize() { post(.summarize) }

  /// Has the thread look for other work: the output has news.
  func wake() { semaphore.post() }

  /// How many lines were lost since the last call, because too many waited.
  func takeLost() -> UInt64 { lost.exchange(0, ordering: .relaxed) }

  private func post(_ item: Item) {
    inbox.withLock { inbox in
      guard inbox.items.count < Self.itemLimit else { return lose(item) }
      inbox.items.append(item)
      if case .update(_, let size) = item { inbox.bytes += size }
    }
    semaphore.post()
  }

  private func lose(_ item: Item) {
    if case .update(let update, _) = item, !update.isReportDue { return }
    lost.add(1, ordering: .relaxed)
  }

  /// Ends the thread when it has reported what was handed over, for as long as that may take; or at once if there is no memory.
  func end(abandoning: Bool = false) {
    let handle = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    guard let handle else { return }
    inbox.withLock { ($0.latest, $0.isAbandoned) = (MonotonicClock.now() + Self.namingTimeAtEnd, abandoning) }
    semaphore.post()
    // A file system that does not answer blocks only that thread.
    if hasEnded.wait(for: Self.longestEnd) { clinux_thread_join(handle) } else { clinux_thread_detach(handle) }
  }

  // MARK: The thread's side

  private func run(_ reporter: StallReporter) {
    reporter.begin()
    var release: UInt64? = nil
    while true {
      guard waitForMemory() else { return reporter.abandon() }
      var hasWorked = false
      while let item = next(reporter) {
        take(item, reporter)
        hasWorked = true
      }
      let summary = reporter.summarize()
      if inbox.withLock({ $0.latest != nil && $0.items.isEmpty }) { return reporter.end() }
      if hasWorked { release = MonotonicClock.now() + Self.idleTime }
      guard let deadline = [summary, release].compactMap({ $0 }).min() else {
        semaphore.wait()
        continue
      }
      if !semaphore.wait(until: deadline), let time = release, MonotonicClock.now() >= time {
        reporter.release()
        release = nil
      }
    }
  }

  /// False if the watch ends without memory.
  private func waitForMemory() -> Bool {
    while !AvailableMemory.isEnough {
      if inbox.withLock(\.isAbandoned) { return false }
      _ = semaphore.wait(until: MonotonicClock.now() + AvailableMemory.retryInterval)
    }
    return !inbox.withLock(\.isAbandoned)
  }

  private func next(_ reporter: StallReporter) -> Item? {
    inbox.withLock { inbox in
      if let latest = inbox.latest { reporter.latest = latest }
      guard !inbox.items.isEmpty else { return nil }
      let item = inbox.items.removeFirst()
      if case .update(_, let size) = item { inbox.bytes -= size }
      return item
    }
  }

  private func take(_ item: Item, _ reporter: StallReporter) {
    switch item {
    case .update(let update, _): reporter.take(update)
    case .freeze(let report): reporter.take(freeze: report)
    case .lost(let count, let total, let update): reporter.take(lost: count, lasting: total, like: update)
    case .tune(let window, let budget): reporter.tune(window: window, budget: budget)
    case .summarize: _ = reporter.summarize(closing: true)
    }
  }
}
