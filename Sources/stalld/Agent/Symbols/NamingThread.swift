import Glibc
import LoopEngine
import StallMonitor
import Synchronization

/// Names the functions in report lines, one after the other, on a thread of its own: reading a large program's symbols takes seconds.
final class NamingThread: Sendable {
  /// A line, and the number by which it is known.
  struct Item: Sendable {
    var number: UInt64
    var line: ReportLine
  }

  struct Counters: Sendable, Equatable {
    /// Frames that were named, and frames of builds that no file was found for.
    var hits: UInt64 = 0
    var misses: UInt64 = 0
    /// What the tables and answers take.
    var bytes = 0
  }

  private struct Queue {
    var items: [Item] = []
    var isScheduled = false
    var counters = Counters()
  }

  private let queue = Mutex(Queue())
  private let thread = PermanentThread(name: "stalld-names")
  private let naming: Unchecked<Naming>
  private let didName: @Sendable ([Item]) -> Void
  // A line that is handed on soon keeps the others' time short.
  private static let portion = 32

  /// `didName` is called on the thread, with lines in the order in which they were submitted.
  init(
    settings: AgentSettings.Symbolication, didName: @escaping @Sendable ([Item]) -> Void
  ) throws {
    naming = Unchecked(Naming(settings))
    self.didName = didName
    try thread.start()
    // Taking lines in comes first.
    thread.perform { _ = setpriority(Int32(PRIO_PROCESS.rawValue), 0, 5) }
  }

  var counters: Counters { queue.withLock { $0.counters } }

  func submit(_ items: [Item]) {
    let isFirst = queue.withLock { queue in
      queue.items += items
      defer { queue.isScheduled = true }
      return !queue.isScheduled
    }
    if isFirst { thread.perform { self.work() } }
  }

  /// Takes back what has not been begun.
  func withdraw() -> [Item] {
    queue.withLock { queue in
      defer { queue.items = [] }
      return queue.items
    }
  }

  func stop() { thread.stop() }

  private func work() {
    while true {
      var portion = queue.withLock { queue in
        let portion = Array(queue.items.prefix(Self.portion))
        queue.items.removeFirst(portion.count)
        if portion.isEmpty { queue.isScheduled = false }
        return portion
      }
      guard !portion.isEmpty else { return }
      for index in portion.indices { naming.value.name(&portion[index].line) }
      let counters = naming.value.counters
      queue.withLock { $0.counters = counters }
      didName(portion)
    }
  }
}

/// What the naming thread has.
final class Naming {
  private let files: BuildFiles
  private var completion: ReportCompletion!
  private lazy var canLookUp = Symbolizer.load() == nil
  private let isEnabled: Bool

  init(_ settings: AgentSettings.Symbolication) {
    isEnabled = settings.enabled
    files = BuildFiles(byteBudget: settings.cache, debugDirectories: settings.debugDirectories)
    completion = ReportCompletion { [unowned self] in
      isEnabled && canLookUp ? files.look(up: $0, modulePath: $1, offset: $2) : nil
    }
  }

  var counters: NamingThread.Counters {
    NamingThread.Counters(hits: files.hits, misses: files.misses, bytes: files.bytes)
  }

  func name(_ line: inout ReportLine) {
    (files.processID, files.userID) = (line.processID, line.userID)
    guard case .completed(let bytes, _) = completion.complete(Array(line.bytes.dropLast())),
      bytes.count < Ingest.longestReport
    else { return line.shorten() }
    line.bytes = bytes + [UInt8(ascii: "\n")]
  }
}
