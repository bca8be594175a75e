import StallReport

/// A pool of threads, any of which may serve a loop.
enum WorkerPool: Sendable {
  /// libdispatch's.
  case dispatch
  /// Swift concurrency's.
  case cooperative

  /// The pool in words.
  var name: String {
    switch self {
    case .dispatch: "libdispatch's pool"
    case .cooperative: "Swift concurrency"
    }
  }

  /// Whether a thread belongs to the pool, as its functions show; for Swift concurrency, only if it runs a job.
  func owns(_ thread: Report.OtherThread) -> Bool {
    let symbols = thread.stack.compactMap(\.symbol)
    guard symbols.contains("_dispatch_worker_thread") else { return false }
    switch self {
    case .dispatch: return true
    // The end of the root queue's label is the thread's name. The other priorities' threads are another pool's.
    // The main actor's jobs run on a serial queue, which another kind of worker serves (`_dispatch_lane_invoke`).
    case .cooperative:
      if let name = thread.name, name.hasSuffix("-qos"), !name.hasSuffix(".default-qos") { return false }
      return symbols.contains { $0.hasPrefix("swift_job_run") } && !symbols.contains("_dispatch_lane_invoke")
    }
  }
}
