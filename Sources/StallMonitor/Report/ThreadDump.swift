import CLinux
import PlatformLibc
import StallCapture
import StallReport
import Synchronization

/// Captures the stacks of all threads on demand, on a separate thread: the caller is blocked meanwhile, and is
/// read like any other.
// Unchecked: made by the asker, used by the dump's thread, and read after that has ended.
final class ThreadDump: @unchecked Sendable {
  private let timeLimit: UInt64
  private var threads: [ThreadBacktrace] = []

  // How many have been taken; held during one, since each takes some megabytes for symbols.
  private static let count = Mutex<UInt64>(0)

  private init(timeLimit: UInt64) { self.timeLimit = timeLimit }

  /// All threads but this library's own.
  ///
  /// Empty if no thread could be made.
  static func take(timeLimit: UInt64) -> [ThreadBacktrace] {
    let dump = ThreadDump(timeLimit: timeLimit)
    guard let handle = try? OwnThreads.startApart(name: "stall-dump", { dump.run() }) else { return [] }
    clinux_thread_join(handle)
    return dump.threads
  }

  private func run() {
    Self.count.withLock {
      $0 += 1
      takeAll()
    }
  }

  private func takeAll() {
    let capture = ThreadCapture(of: .own)
    let reader = FrameReader(executablePath: ProcessFacts.executablePath())
    let namer = FrameNamer()
    namer.prepareThread()
    capture.flush()
    defer { capture.finishThread() }
    let deadline = MonotonicClock.now() + timeLimit
    let sweep = ThreadSweep(runningOnly: false, excluding: [], with: capture, deadline: deadline)
    namer.deadline = deadline
    threads = sweep.findings.map { finding in
      var thread = Report.OtherThread(finding, reader)
      thread.stack = namer.names(of: thread.stack)
      return ThreadBacktrace(thread)
    }
    let reason = "the time limit, or the limit of \(ThreadSweep.limit) threads, was reached"
    threads += sweep.notLookedAt.map { ThreadBacktrace(threadID: $0, failure: reason) }
  }
}
