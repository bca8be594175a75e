import CLinux
import CUnwind
import Foundation
import StallReport
import Synchronization
import TestSupport
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// Threads with stacks and signals that a capture by signal must not be noticed on: each in a process of its own.
  @Suite(.serialized, .timeLimit(.minutes(1)))
  struct HostileStackTests {
    /// How much longer than on a real processor all of this takes.
    static let factor: UInt32 = TestMachine.isEmulated ? 10 : 1

    /// Captures the thread repeatedly, by the timer, while `body` runs on it, once or more.
    ///
    /// The thread is prepared first.
    private static func capturing(stack size: Int = 512 << 10, _ body: @escaping @Sendable @convention(c) () -> Void)
      -> [CaptureFailure?]
    {
      let state = Shared.state
      state.body.withLock { $0 = body }
      // Read once before: a thread may have no stack to spare for that.
      _ = factor
      let looker = Thread {
        let capture = ThreadCapture(of: .own, mayUsePerf: false)
        state.isReady.store(true, ordering: .releasing)
        while state.thread.load(ordering: .acquiring) == 0 { usleep(100) }
        let probe = ThreadProbe(thread: state.thread.load(ordering: .acquiring), of: .own)
        while !state.isDone.load(ordering: .acquiring) {
          let moment = capture.capture(probe, stackEnd: 0, patience: 20_000_000)
          state.results.withLock {
            switch moment.backtrace {
            case .success: $0.append(nil)
            case .failure(let failure): $0.append(failure)
            }
          }
          usleep(500)
        }
        state.hasLooked.store(true, ordering: .releasing)
      }
      looker.start()
      while !state.isReady.load(ordering: .acquiring) { usleep(100) }
      // Not an expectation: it would be waited for below.
      precondition(
        victim_run_on_a_stack_of(size) {
          admitSignals()
          cunwind_prepare_thread_for_timer()
          Shared.state.thread.store(clinux_gettid(), ordering: .releasing)
          // Until it has been looked at: on a busy machine that may come late.
          repeat { Shared.state.body.withLock { $0 }?() } while Shared.state.results.withLock({ $0.count }) < 3
          Shared.state.isDone.store(true, ordering: .releasing)
          cunwind_thread_ends()
        })
      while !state.hasLooked.load(ordering: .acquiring) { usleep(1000) }
      return state.results.withLock { $0 }
    }

    private final class Shared: Sendable {
      static let state = Shared()
      let thread = Atomic<Int32>(0)
      let isReady = Atomic<Bool>(false)
      let isDone = Atomic<Bool>(false)
      let hasLooked = Atomic<Bool>(false)
      let body = Mutex<(@Sendable @convention(c) () -> Void)?>(nil)
      let results = Mutex<[CaptureFailure?]>([])
    }

    /// Below the thread's stack lies its guard page, and below that the coroutine's.
    @Test func coroutineBelowTheStack() async {
      await #expect(processExitsWith: .success) {
        let results = HostileStackTests.capturing {
          #expect(victim_compute_on_a_stack_below(300 * HostileStackTests.factor))
        }
        #expect(results.contains(nil), "\(results)")
      }
    }

    @Test func hardlyAnyStackLeft() async {
      await #expect(processExitsWith: .success) {
        let results = HostileStackTests.capturing {
          victim_compute_near_the_end_of_the_stack(300 * HostileStackTests.factor, 3000)
        }
        #expect(results.contains(nil), "\(results)")
      }
    }

    /// One on which the kernel's frame for a handler does not fit, set after the thread was prepared.
    @Test(.enabled(if: victim_set_alternate_stack(2048) == 0, "the kernel refuses such a stack"))
    func smallAlternateStack() async {
      await #expect(processExitsWith: .success) {
        let results = HostileStackTests.capturing {
          // As between two turns: no capture is in progress, and the next turn's beginning notes
          // it.
          while !cunwind_snapshot_claim(cunwind_own_process()) {}
          #expect(victim_set_alternate_stack(2048) == 0)
          cunwind_note_thread()
          cunwind_snapshot_release(cunwind_own_process())
          victim_c_compute(300 * HostileStackTests.factor)
        }
        #expect(Set(results.suffix(3)) == [.notPrepared], "\(results)")
      }
    }

    /// A handler that ran on the normal stack before the thread was given an alternate one.
    @Test func largeHandler() async {
      await #expect(processExitsWith: .success) {
        let results = HostileStackTests.capturing(stack: 1 << 20) {
          for _ in 0..<20 {
            victim_run_handler_on_stack(400 << 10)
            victim_c_compute(10 * HostileStackTests.factor)
          }
        }
        #expect(results.contains(nil), "\(results)")
      }
    }

    @Test func signalsThatAreReadFromADescriptor() async {
      await #expect(processExitsWith: .success) {
        let results = HostileStackTests.capturing {
          victim_block_real_time_signals()
          cunwind_prepare_thread_for_timer()
          var sent: Int32 = 0
          let arrived = victim_read_real_time_signals(200 * HostileStackTests.factor, &sent)
          #expect(sent > 200)
          #expect(arrived == sent)
        }
        #expect(results.contains(.signalBlocked), "\(results)")
      }
    }

    @Test func smallThreadStack() async {
      await #expect(processExitsWith: .success) {
        // glibc demands 128 KiB on aarch64.
        let smallest = max(16384, sysconf(Int32(_SC_THREAD_STACK_MIN)))
        let results = HostileStackTests.capturing(stack: smallest) { victim_c_compute(200 * HostileStackTests.factor) }
        #expect(results.contains(nil), "\(results)")
      }
    }
  }
}
