/// Tells a thread that does nothing but compute from one that works in the kernel, too.
///
/// Stricter than ``SteadyRun``, for looks that nobody would miss: no transfer is under way, or was a moment ago, that a signal could make end
/// short. The kernel charges each of its ticks to where it met the thread: since the run began, all of them in user mode, two at least before
/// the first capture, and one since the last.
struct UserModeRun {
  private var steady = SteadyRun()
  private var userTime: UInt64
  private let kernelTime: UInt64
  // A single tick may have met a thread that calls the kernel all the time in between two of the calls.
  private var ticksNeeded = 2

  enum Finding {
    /// It computes.
    case steady
    /// It has not had enough processor time to tell.
    case waiting
    /// It has been in the kernel, or has given its processor up.
    case over
  }

  /// Begins with the thread as it is.
  ///
  /// Nil where the kernel does not tell.
  init?(of probe: borrowing ThreadProbe) {
    guard let times = probe.modeTimes() else { return nil }
    (userTime, kernelTime) = (times.user, times.kernel)
    guard probe.voluntarySwitches() != nil, case .waiting = steady.look(at: probe) else { return nil }
  }

  /// Looks at a thread that is ready to run.
  mutating func look(at probe: borrowing ThreadProbe) -> Finding {
    let finding = steady.look(at: probe)
    if case .alternating = finding { return .over }
    guard let times = probe.modeTimes(), times.kernel == kernelTime else { return .over }
    if times.user > userTime {
      userTime = times.user
      ticksNeeded -= 1
    }
    guard case .steady = finding else { return .waiting }
    return ticksNeeded <= 0 ? .steady : .waiting
  }

  /// Begins anew after a capture; what the kernel has charged for itself since the beginning still counts.
  mutating func restart(at probe: borrowing ThreadProbe) {
    userTime = probe.modeTimes()?.user ?? .max
    ticksNeeded = 1
    steady = SteadyRun()
    _ = steady.look(at: probe)
  }
}
