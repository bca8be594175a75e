/// What a blocked thread waits for, if no thread is named: `stall.evidence.waits_for`.
package enum WaitedFor: String, Sendable, CaseIterable {
  case thread
  case process
  case threadOrProcess = "thread_or_process"
  /// A time limit, or a wake-up before it.
  case timeLimit = "time_limit"
  /// The kernel itself: what it does for others, such as a change of the process's memory.
  case kernel

  /// After "waiting in … ".
  var phrase: String {
    switch self {
    case .thread: "for another thread"
    case .process: "for another process"
    case .threadOrProcess: "for another thread or process"
    case .timeLimit: "for no thread in particular, with a time limit"
    case .kernel: "inside the kernel"
    }
  }
}
