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
  /// In a process of its own: a child has the descriptors of all tests.
  @Test func forkWaitsForTheMonitorsThreads() async {
    await #expect(processExitsWith: .success) {
      _exit(try haveWaited(.init(work: 20_000_000)) ? 0 : 1)
    }
  }

  /// Naming a stack may take long: forks need not wait for its end.
  @Test func forkWaitsForAPauseInTheirWork() async {
    await #expect(processExitsWith: .success) {
      _exit(try haveWaited(.init(work: 1_000_000, rests: false)) ? 0 : 1)
    }
  }

  /// A thread that waits for a disk delays one fork, and not all of them.
  @Test func threadThatIsHeldUpDelaysOneFork() async {
    await #expect(processExitsWith: .success) {
      _ = try startWorking(.init(work: .max))
      let times = (0..<10).map { _ in
        ContinuousClock().measure {
          let child = victim_fork()
          if child == 0 { _exit(0) }
          waitpid(child, nil, 0)
        }
      }
      print("the forks took \(times)")
      _exit(times.dropFirst().contains { $0 < .milliseconds(40) } ? 0 : 1)
    }
  }

  /// A lock that another thread's fork has taken would never be given back in the child.
  @Test func childOfForksAtOnceFindsTheLocksFree() async {
    await #expect(processExitsWith: .success) {
      let lock = UnsafeMutablePointer<UInt32>.allocate(capacity: 1)
      lock.initialize(to: 0)
      clinux_fork_register_lock(lock)
      let held = victim_children_that_find_a_lock_held(lock, 32, 3, 200 << 20)
      print("\(held) of 96 children found the lock held")
      _exit(held == 0 && lock.pointee == 0 ? 0 : 1)
    }
  }

  @Test func forkIsNoCancellationPoint() async {
    await #expect(processExitsWith: .success) {
      _ = try startWorking(.init(work: 2_000_000))
      for _ in 0..<100 {
        usleep(1000)
        guard victim_fork_while_cancelled() else { _exit(1) }
      }
      _exit(0)
    }
  }
}

/// How a thread of the monitor's works.
private struct Manner {
  /// For how long at a time, in nanoseconds.
  var work: UInt64
  /// Whether it rests in between, or lets forks pass.
  var rests = true
}

/// Whether forks wait until such a thread rests: whether none of their children begins while it works.
///
/// On a busy machine, forks may wait in vain. Such ones do not count, but there must be others.
private func haveWaited(_ manner: Manner) throws -> Bool {
  let works = try startWorking(manner)
  var limit = Duration.milliseconds(50)
  var (forks, counted, met) = (0, 0, 0)
  while counted < 40, forks < 400 {
    usleep(1000)
    let clock = ContinuousClock()
    let begin = clock.now
    let child = victim_fork()
    if child == 0 { _exit(works.pointee.load(ordering: .relaxed)) }
    let isInVain = clock.now - begin >= limit
    // After such a one, forks wait for 3 ms.
    limit = .milliseconds(isInVain ? 3 : 50)
    var status: Int32 = 0
    waitpid(child, &status, 0)
    forks += 1
    if isInVain { continue }
    counted += 1
    if status != 0 { met += 1 }
  }
  print("\(met) of \(counted) children began while the thread worked, of \(forks) in all")
  return met == 0 && counted > 0
}

/// Starts a thread of the monitor's that mostly works; says when it does.
private func startWorking(_ manner: Manner) throws -> UnsafeMutablePointer<Atomic<Int32>> {
  // For the life of the process.
  let works = UnsafeMutablePointer<Atomic<Int32>>.allocate(capacity: 1)
  works.initialize(to: Atomic(0))
  let address = UInt(bitPattern: works)
  let rest = WakeSemaphore()
  _ = try OwnThreads.start(name: "fork-test") {
    let works = UnsafeMutablePointer<Atomic<Int32>>(bitPattern: address)!
    while true {
      works.pointee.store(1, ordering: .relaxed)
      let (end, isBeyond) = MonotonicClock.now().addingReportingOverflow(manner.work)
      while isBeyond || MonotonicClock.now() < end {}
      works.pointee.store(0, ordering: .relaxed)
      if manner.rests {
        _ = rest.wait(until: MonotonicClock.now() + 100_000)
      } else {
        clinux_fork_monitor_thread_passes()
      }
    }
  }
  while works.pointee.load(ordering: .relaxed) == 0 { usleep(1000) }
  return works
}
