import CLinux
import Foundation
import Synchronization
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

/// What a fork finds of the monitor's threads.
struct ForkTests {
  /// A thread that works may hold a lock of Swift's runtime, which the child would keep for ever.
  ///
  /// On a busy machine, some forks may not wait long enough. In a process of its own: a child has the descriptors of all tests.
  @Test func forkWaitsForTheMonitorsThreads() async {
    await #expect(processExitsWith: .success) {
      let works = Atomic<Int32>(0)
      let rest = WakeSemaphore()
      _ = try OwnThreads.start(name: "fork-test") {
        while true {
          works.store(1, ordering: .relaxed)
          let end = MonotonicClock.now() + 2_000_000
          while MonotonicClock.now() < end {}
          works.store(0, ordering: .relaxed)
          _ = rest.wait(until: MonotonicClock.now() + 100_000)
        }
      }
      // Once it works.
      while works.load(ordering: .relaxed) == 0 { usleep(1000) }
      var met = 0
      for _ in 0..<40 {
        usleep(1000)
        let child = victim_fork()
        if child == 0 { _exit(works.load(ordering: .relaxed)) }
        var status: Int32 = 0
        waitpid(child, &status, 0)
        met += status == 0 ? 0 : 1
      }
      print("\(met) of 40 children began while the thread worked")
      _exit(met < 8 ? 0 : 1)
    }
  }
}
