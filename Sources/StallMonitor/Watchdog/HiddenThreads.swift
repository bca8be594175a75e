import StallCapture
import Synchronization

/// Logs once in a watch that it is not known what threads do, and why.
enum HiddenThreads {
  private static let hasBeenSaid = Atomic<Bool>(false)

  /// Checks when the watch begins, on the watchdog; returns whether it is known what threads do.
  static func check() -> Bool {
    let problem = ThreadProbe.problem()
    hasBeenSaid.store(problem != nil, ordering: .relaxed)
    if let problem { say(problem) }
    return problem == nil
  }

  /// Checks a thread that is watched from now on: the user or the limit of open files may be another since the start.
  static func check(_ probe: borrowing ThreadProbe) {
    guard let problem = probe.problem, !hasBeenSaid.exchange(true, ordering: .relaxed) else { return }
    say(problem)
  }

  private static func say(_ problem: String) {
    Diagnostics.say("reports will have no cause and no stacks: \(problem)")
  }
}
