import StallCapture

/// The loops that the watchdog's thread checks.
///
/// It follows the changes that other threads make to the ``WatchList``. Belongs to the watchdog's thread.
final class CheckedLoops {
  /// The loops, in the order in which they came.
  private(set) var all: [WatchedLoop] = []
  // Made before the first turn that is watched. Its rate is learnt when the work begins: that takes 2 ms.
  let clock: PulseClock
  private let counters = ProcessCounters(of: .own)
  private let list: WatchList

  init(of watchdog: Watchdog) {
    list = watchdog.list
    clock = watchdog.pulses.makeClock()
  }

  /// Waits 2 ms for the clock.
  func begin() { clock.learnRate() }

  /// Leaves the loops for a thread of the service's to release.
  func end() { _ = list.retire(all) }

  /// Makes the changes of other threads since the last call.
  ///
  /// - Parameters:
  ///   - plan: What is in force for a new loop.
  ///   - stalls: Closes what is open of a loop that is watched no longer.
  func update(plan: WatchPlan, stalls: StallFollower) {
    // What posts the heartbeats of loops that are watched no longer.
    var posters: [BeatPoster] = []
    for change in list.takeChanges() {
      switch change {
      case .watch(let subject):
        let loop = WatchedLoop(subject, clock: clock, counters: counters)
        loop.tune(to: plan)
        all.append(loop)
      case .forget(let pulse):
        let forgotten = all.filter { $0.subject.pulse === pulse }
        stalls.finish(forgotten)
        for loop in forgotten { loop.subject.work?.finish() }
        posters += list.retire(forgotten)
        all.removeAll { $0.subject.pulse === pulse }
      }
    }
    for poster in posters {
      poster.end { [list] in list.releaseRetired() }
    }
  }

  /// Whether no loop has a turn that has lasted for its threshold through the service's own fault.
  ///
  /// `asksWhy` is false where there is no memory to find out: then any such turn counts.
  func areHealthy(asksWhy: Bool = true) -> Bool {
    let now = MonotonicClock.now()
    return all.allSatisfy { !$0.subject.isVital || $0.isHealthy(at: now, asksWhy: asksWhy) }
  }
}
