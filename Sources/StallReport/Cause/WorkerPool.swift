/// A pool of threads, any of which may serve a loop.
package enum WorkerPool: Sendable {
  /// libdispatch's.
  case dispatch
  /// Swift concurrency's.
  case cooperative

  /// The pool in words.
  package var name: String {
    switch self {
    case .dispatch: "libdispatch's pool"
    case .cooperative: "Swift concurrency"
    }
  }

  /// Whether a thread belongs to the pool, as its name and its functions show; for Swift concurrency, only if it runs a job, or another
  /// block of libdispatch's queue that the pool's queue has its threads from.
  package func owns(_ thread: Report.OtherThread) -> Bool {
    let symbols = thread.stack.compactMap(\.symbol)
    guard symbols.contains("_dispatch_worker_thread") else { return false }
    switch self {
    case .dispatch: return true
    case .cooperative:
      // The end of the root queue's label is the thread's name. The other priorities' threads, and those of queues that get as many as
      // they want, are other pools'.
      let name = thread.name ?? ""
      let runsJob = symbols.contains { $0.hasPrefix("swift_job_run") }
      // libdispatch calls a block by a jump, which leaves no frame of its own.
      if name.hasSuffix(".default-qos") { return runsJob || thread.stack.contains { $0.owner == .host } }
      if name.hasSuffix("-qos") || name.hasSuffix("-qos.overcommit") { return false }
      // A libdispatch that names no threads: a block may be any queue's. The main actor's jobs run on a serial queue, which another kind
      // of worker serves.
      return runsJob && !symbols.contains("_dispatch_lane_invoke")
    }
  }
}
