import CLinux

/// Captures the threads of a process one after the other.
///
/// No thread is held while another is captured.
package struct ThreadSweep {
  /// A thread, and what it was met in.
  package struct Finding {
    package var id: Int32
    package var name: String?
    package var snapshot: ThreadSnapshot
    /// The call that it was waiting in, in words.
    package var wait: String?
  }

  /// The maximum number of threads to capture.
  package static let limit = 4096
  /// The bounds of the time that one thread may take if its capture does not succeed.
  private static let patience: ClosedRange<UInt64> = 20_000_000...ThreadCapture.patience

  package private(set) var findings: [Finding] = []
  /// Threads that were not captured because the time limit or ``limit`` was reached.
  package private(set) var notLookedAt: [Int32] = []

  /// Captures all threads but `excluded` and this library's own, or only the running ones.
  ///
  /// Takes about 100 us for a blocked thread, and some milliseconds for a running one. `deadline` is a moment of the monotonic clock.
  package init(runningOnly: Bool, excluding excluded: Set<Int32>, with capture: ThreadCapture, deadline: UInt64) {
    let process = capture.process
    let own = process.monitorThreads
    var ids = process.threads().filter { !own.contains($0) && !excluded.contains($0) }
    if runningOnly {
      // Which of them run is soon known; the time is for their stacks.
      ids = ids.filter {
        MonotonicClock.now() >= deadline || ThreadProbe(thread: $0, of: process).activity() == .running
      }
    }
    for (index, id) in ids.enumerated() {
      clinux_fork_monitor_thread_passes()
      let now = MonotonicClock.now()
      guard now < deadline, index < Self.limit else {
        notLookedAt = Array(ids[index...])
        break
      }
      let probe = ThreadProbe(thread: id, of: process)
      let share = (deadline - now) / UInt64(ids.count - index)
      let patience = min(max(share, Self.patience.lowerBound), Self.patience.upperBound)
      let snapshot = capture.capture(probe, stackEnd: 0, patience: min(patience, deadline - now))
      // It has ended meanwhile, and is no longer a thread of the process.
      if case .failure(.threadEnded) = snapshot.backtrace { continue }
      var finding = Finding(id: id, name: process.name(of: id), snapshot: snapshot)
      if case .blocked(let call) = snapshot.activity {
        let text = SystemCall(call, of: id, in: process).text
        finding.wait =
          probe.isStillBlocked(in: call, since: snapshot.runCount) ? text : SystemCall(call, in: process).shortText
      }
      findings.append(finding)
    }
  }
}
