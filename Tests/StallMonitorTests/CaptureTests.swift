import CLinux
import CUnwind
import Glibc
import StallReport
import Synchronization
import TestSupport
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

/// A thread that recurses to a depth and then waits, or runs on CPU, until it is released.
final class VictimThread: @unchecked Sendable {  // The handle is set before the thread is shared; the rest is atomic.
  enum Leaf: CaseIterable, Sendable {
    case nanosleep, clockNanosleep, read, poll, select, semaphore, condition, mutex, spin
  }

  private var handle = pthread_t()
  private let depth: Int
  private let leaf: Leaf
  private let isPrepared: Bool
  private let thread = Atomic<Int32>(0)
  private let isReady = Atomic<Bool>(false)
  private let isReleased = Atomic<Bool>(false)
  /// How often the leaf has been called.
  let rounds = Atomic<Int>(0)
  private var ends: [Int32] = [0, 0]
  private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  /// A thread that is prepared can be captured by the timer, too.
  init(depth: Int, leaf: Leaf, settles: Bool = true, isPrepared: Bool = false) {
    self.isPrepared = isPrepared
    self.depth = depth
    self.leaf = leaf
    pipe(&ends)
    sem_init(semaphore, 0, 0)
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(condition, nil)
    if leaf == .mutex { pthread_mutex_lock(mutex) }
    pthread_create(
      &handle, nil,
      { argument in
        let victim = Unmanaged<VictimThread>.fromOpaque(argument!).takeUnretainedValue()
        admitSignals()
        if victim.isPrepared { cunwind_prepare_thread_for_timer() }
        victim.thread.store(Int32(truncatingIfNeeded: syscallGettid()), ordering: .releasing)
        victim.recurse(victim.depth)
        cunwind_thread_ends()
        return nil
      }, Unmanaged.passUnretained(self).toOpaque())
    while !isReady.load(ordering: .acquiring) { sched_yield() }
    if settles, leaf != .spin { usleep(20_000) }
  }

  var id: Int32 { thread.load(ordering: .acquiring) }

  /// Waits until the thread waits in its call.
  func waitUntilItStands() {
    let probe = ThreadProbe(thread: id, of: .own)
    let end = MonotonicClock.now() + 20_000_000_000
    while MonotonicClock.now() < end {
      let slices = probe.schedule()?.timeslices
      // Without a number, it waits in a page fault.
      if case .blocked(let call) = probe.activity(), call.number >= 0 {
        usleep(100)
        if case .blocked = probe.activity(), probe.schedule()?.timeslices == slices { return }
      }
      usleep(1000)
    }
    Issue.record("the thread does not come to rest")
  }

  func release() {
    isReleased.store(true, ordering: .releasing)
    var byte: UInt8 = 0
    write(ends[1], &byte, 1)
    sem_post(semaphore)
    if leaf == .mutex { pthread_mutex_unlock(mutex) }
    if leaf == .condition {
      pthread_mutex_lock(mutex)
      pthread_cond_signal(condition)
      pthread_mutex_unlock(mutex)
    }
    pthread_join(handle, nil)
    close(ends[0])
    close(ends[1])
  }

  @inline(never)
  private func recurse(_ left: Int) {
    if left > 0 { recurse(left - 1) } else { stand() }
    withExtendedLifetime(self) {}
  }

  @inline(never)
  private func stand() {
    isReady.store(true, ordering: .releasing)
    while !isReleased.load(ordering: .acquiring) {
      rounds.add(1, ordering: .relaxed)
      switch leaf {
      case .nanosleep:
        var time = timespec(tv_sec: 0, tv_nsec: 400_000_000)
        nanosleep(&time, nil)
      case .clockNanosleep:
        var time = timespec(tv_sec: 0, tv_nsec: 400_000_000)
        clock_nanosleep(clockid_t(CLOCK_MONOTONIC), 0, &time, nil)
      case .read:
        var byte: UInt8 = 0
        read(ends[0], &byte, 1)
      case .poll:
        var entry = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
        poll(&entry, 1, -1)
      case .select:
        var time = timeval(tv_sec: 0, tv_usec: 400_000)
        select(0, nil, nil, nil, &time)
      case .semaphore: sem_wait(semaphore)
      case .condition:
        pthread_mutex_lock(mutex)
        if !isReleased.load(ordering: .acquiring) { pthread_cond_wait(condition, mutex) }
        pthread_mutex_unlock(mutex)
      case .mutex:
        pthread_mutex_lock(mutex)
        pthread_mutex_unlock(mutex)
      case .spin: break
      }
    }
  }
}

private func syscallGettid() -> pid_t { clinux_gettid() }

extension CapturesInThisProcess {
  @Suite(.serialized)
  struct CaptureTests {
    @Test(arguments: VictimThread.Leaf.allCases, [0, 1, 40])
    func wholeStackOfAThread(leaf: VictimThread.Leaf, depth: Int) throws {
      let victim = VictimThread(depth: depth, leaf: leaf)
      defer { victim.release() }
      let capture = ThreadCapture(of: .own)
      let moment = capture.captureWithPatience(ThreadProbe(thread: victim.id, of: .own))
      let backtrace = try moment.backtrace.get()
      #expect(!backtrace.isTruncated)
      #expect(!backtrace.isApproximate)
      #expect(backtrace.frames.count >= depth + 3, "\(leaf) \(backtrace.frames.count)")
      if leaf == .spin { #expect(moment.activity == .running) } else { #expect(moment.activity != .running) }
    }

    @Test("a running thread is captured by perf events, and by the timer", arguments: [true, false], [0, 40])
    func runningThread(usesPerf: Bool, depth: Int) throws {
      let victim = VictimThread(depth: depth, leaf: .spin, isPrepared: !usesPerf)
      defer { victim.release() }
      let capture = ThreadCapture(of: .own, mayUsePerf: usesPerf)
      let backtrace = try capture.captureWithPatience(ThreadProbe(thread: victim.id, of: .own)).backtrace.get()
      let isPermitted = usesPerf && cunwind_perf_is_permitted()
      #expect(backtrace.method == (isPermitted ? .perf : .timer))
      #expect(!backtrace.isTruncated && !backtrace.isApproximate)
      #expect(backtrace.frames.count >= depth + 3)
    }

    @Test(
      "a thread that a debugger has stopped is not said to wait for what it was in",
      .enabled(if: getuid() == 0, "a system may let only root trace its parent"),
      arguments: [VictimThread.Leaf.read, .spin])
    func stoppedThread(leaf: VictimThread.Leaf) throws {
      let victim = VictimThread(depth: 1, leaf: leaf)
      defer { victim.release() }
      let tracer = victim_begin_stop(victim.id)
      try #require(tracer > 0)
      defer { victim_end_stop(tracer) }
      let moment = ThreadCapture(of: .own).capture(ThreadProbe(thread: victim.id, of: .own), stackEnd: 0)
      #expect(moment.activity == .unknown)
      #expect(throws: CaptureFailure.stopped) { try moment.backtrace.get() }
    }

    @Test func unpreparedThreadIsNotSignalled() throws {
      let victim = VictimThread(depth: 0, leaf: .spin)
      defer { victim.release() }
      let moment = ThreadCapture(of: .own, mayUsePerf: false).captureWithPatience(
        ThreadProbe(thread: victim.id, of: .own))
      #expect(moment.activity == .running)
      #expect(throws: CaptureFailure.notPrepared) { try moment.backtrace.get() }
    }
  }
}
