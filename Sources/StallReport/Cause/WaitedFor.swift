/// What a blocked thread waits for, if no thread is named.
package enum WaitedFor: Sendable, Equatable {
  case thread
  case process
  case threadOrProcess
  /// A time limit, or a wake-up before it.
  case timeLimit
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
