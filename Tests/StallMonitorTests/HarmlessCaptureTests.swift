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

extension CapturesInThisProcess {
  /// A capture must not be noticed by the thread that is captured.
  @Suite(.serialized, .repeatedAfterStandstills(because: "a thread's own times are judged"))
  struct HarmlessCaptureTests {
    /// A thread that alternates between half a millisecond of work and a call that signals make fail with EINTR.
    private final class Alternator: Sendable {
      enum Call: CaseIterable, Sendable { case nanosleep, poll, select, semTimedwait }

      let thread = Atomic<Int32>(0)
      let isDone = Atomic<Bool>(false)
      let calls = Atomic<Int>(0)
      let interrupted = Atomic<Int>(0)
      let early = Atomic<Int>(0)
      let call: Call

      init(_ call: Call) { self.call = call }

      func run() {
        admitSignals()
        cunwind_prepare_thread_for_timer()
        defer { cunwind_thread_ends() }
        thread.store(clinux_gettid(), ordering: .releasing)
        var semaphore = sem_t()
        sem_init(&semaphore, 0, 0)
        while !isDone.load(ordering: .acquiring) {
          let busyUntil = MonotonicClock.now() + 500_000
          while MonotonicClock.now() < busyUntil {}
          let start = MonotonicClock.now()
          errno = 0
          switch call {
          case .nanosleep:
            var time = timespec(tv_sec: 0, tv_nsec: 1_000_000)
            _ = Glibc.nanosleep(&time, nil)
          case .poll: _ = Glibc.poll(nil, 0, 1)
          case .select:
            var time = timeval(tv_sec: 0, tv_usec: 1000)
            _ = Glibc.select(0, nil, nil, nil, &time)
          case .semTimedwait:
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            time.tv_nsec += 1_000_000
            if time.tv_nsec >= 1_000_000_000 {
              (time.tv_sec, time.tv_nsec) = (time.tv_sec + 1, time.tv_nsec - 1_000_000_000)
            }
            _ = sem_timedwait(&semaphore, &time)
          }
          if errno == EINTR { interrupted.add(1, ordering: .relaxed) }
          if MonotonicClock.now() - start < 900_000 { early.add(1, ordering: .relaxed) }
          calls.add(1, ordering: .relaxed)
        }
        sem_destroy(&semaphore)
      }
    }

    @Test(arguments: Alternator.Call.allCases, [true, false])
    private func callsAreNeitherInterruptedNorCutShort(call: Alternator.Call, usesPerf: Bool) throws {
      let alternator = Alternator(call)
      var handle = pthread_t()
      pthread_create(
        &handle, nil,
        { argument in
          Unmanaged<Alternator>.fromOpaque(argument!).takeUnretainedValue().run()
          return nil
        }, Unmanaged.passUnretained(alternator).toOpaque())
      while alternator.thread.load(ordering: .acquiring) == 0 { sched_yield() }
      let capture = ThreadCapture(of: .own, mayUsePerf: usesPerf)
      let probe = ThreadProbe(thread: alternator.thread.load(ordering: .acquiring), of: .own)
      var taken = 0
      for _ in 0..<1500 where (try? capture.capture(probe, stackEnd: 0).backtrace.get()) != nil { taken += 1 }
      alternator.isDone.store(true, ordering: .releasing)
      pthread_join(handle, nil)
      #expect(alternator.interrupted.load(ordering: .relaxed) == 0)
      #expect(alternator.early.load(ordering: .relaxed) == 0)
      #expect(taken > 1400, "\(taken) of 1500")
    }

    private static let repeatsCalls: Bool = {
      #if arch(x86_64)
      true
      #else
      false
      #endif
    }()

    /// A thread that blocks the signal after the timer was armed, and then waits with a mask that
    /// admits it: the wait continues.
    @Test(.enabled(if: repeatsCalls, "the call cannot be repeated on aarch64, where its first argument is lost"))
    func pendingSignalThatAWaitAdmitsIsNotNoticed() async {
      await #expect(processExitsWith: .success) {
        // It learns how the C library makes system calls, without which none of glibc 2.41 is repeated.
        #expect(cunwind_load() == nil)
        let signal = cunwind_timer_signal(0)
        #expect(signal > 0)
        let start = MonotonicClock.now()
        #expect(victim_poll_letting_in(signal, 60) == 0)
        #expect(MonotonicClock.now() - start >= 55_000_000)
      }
    }

    @Test func threadWithItsSignalsBlockedIsNotSignalled() throws {
      let spinner = Spinner(blocksSignals: true)
      defer { spinner.stop() }
      let moment = ThreadCapture(of: .own, mayUsePerf: false).capture(
        ThreadProbe(thread: spinner.id, of: .own), stackEnd: 0)
      #expect(throws: CaptureFailure.signalBlocked) { try moment.backtrace.get() }
    }

    @Test func threadThatHasEndedIsReportedAsSuch() throws {
      let spinner = Spinner(blocksSignals: false)
      let probe = ThreadProbe(thread: spinner.id, of: .own)
      spinner.stop()
      let moment = ThreadCapture(of: .own).capture(probe, stackEnd: 0)
      #expect(throws: CaptureFailure.threadEnded) { try moment.backtrace.get() }
    }
  }
}

/// A thread that computes until it is stopped.
private final class Spinner: @unchecked Sendable {  // The handle is set before the thread is shared.
  private var handle = pthread_t()
  private let thread = Atomic<Int32>(0)
  private let isDone = Atomic<Bool>(false)
  private let blocksSignals: Bool

  init(blocksSignals: Bool) {
    self.blocksSignals = blocksSignals
    pthread_create(
      &handle, nil,
      { argument in
        Unmanaged<Spinner>.fromOpaque(argument!).takeUnretainedValue().spin()
        return nil
      }, Unmanaged.passUnretained(self).toOpaque())
    while id == 0 { sched_yield() }
  }

  var id: Int32 { thread.load(ordering: .acquiring) }

  private func spin() {
    var mask = sigset_t()
    if blocksSignals { sigfillset(&mask) } else { sigemptyset(&mask) }
    pthread_sigmask(SIG_SETMASK, &mask, nil)
    cunwind_prepare_thread_for_timer()
    thread.store(clinux_gettid(), ordering: .releasing)
    while !isDone.load(ordering: .acquiring) {}
    cunwind_thread_ends()
  }

  func stop() {
    isDone.store(true, ordering: .releasing)
    pthread_join(handle, nil)
  }
}
