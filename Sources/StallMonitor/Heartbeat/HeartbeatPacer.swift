/// Decides when a loop is sent a heartbeat: once a threshold while its thread runs, and never while it rests.
///
/// That a thread rests is known without waking it: the kernel counts how often it was given a processor (`schedstat`). Unchanged since it was
/// last met at its resting place, it has not left that. Lives on the watchdog's thread.
struct HeartbeatPacer {
  /// Calls in which a loop waits for work. One that stands in any other is sent a heartbeat each time.
  private static let restingCalls: Set<Int64> = [
    7,  // poll
    232,  // epoll_wait
    271,  // ppoll
    281,  // epoll_pwait
    426,  // io_uring_enter
    441,  // epoll_pwait2
  ]

  private let interval: UInt64
  private var due: UInt64 = 0
  private var hasPosted = false
  // How often the thread had been given a processor, and where it stood, when the last heartbeat was posted.
  private var slicesAtPost: UInt64 = 0
  private var placeAtPost = ThreadProbe.Activity.unknown
  // The count with which the thread was last met at rest.
  private var slicesAtRest: UInt64?

  init(interval: UInt64) { self.interval = interval }

  /// What to do about a loop now.
  enum Step: Equatable {
    /// Look again at this time.
    case wait(until: UInt64)
    /// Post a heartbeat.
    case post
    /// The thread has ended.
    case ended
  }

  /// What the kernel tells of a thread in one look.
  struct Look {
    /// Nil if the thread has ended, or there is no procfs.
    var slices: UInt64?
    var place: ThreadProbe.Activity
  }

  /// What to do now, with the last heartbeat answered.
  mutating func step(at now: UInt64, look: () -> Look) -> Step {
    guard now >= due else { return .wait(until: due) }
    let look = look()
    // A file that could be read once and now cannot be is that of a thread that has ended.
    guard let slices = look.slices else { return hasPosted && slicesAtPost > 0 ? .ended : post(look, at: now) }
    if isAtRest(look, slices: slices) {
      slicesAtRest = slices
      due = next(after: now)
      return .wait(until: due)
    }
    return post(look, at: now)
  }

  private mutating func post(_ look: Look, at now: UInt64) -> Step {
    (hasPosted, slicesAtRest) = (true, nil)
    (slicesAtPost, placeAtPost) = (look.slices ?? 0, look.place)
    due = next(after: now)
    return .post
  }

  /// On a grid, so that one wake-up serves all loops.
  private func next(after now: UInt64) -> UInt64 { (now / interval + 1) * interval }

  private func isAtRest(_ look: Look, slices: UInt64) -> Bool {
    // A kernel that does not count says 0.
    guard slices > 0 else { return false }
    if let slicesAtRest { return slices == slicesAtRest }
    // It answered, and got a processor for nothing else: where it stands now, and stood before, is where it waits for work.
    guard hasPosted, slices &- slicesAtPost <= 1, case .blocked(let call) = look.place else { return false }
    return Self.restingCalls.contains(call.number) && look.place == placeAtPost
  }
}
