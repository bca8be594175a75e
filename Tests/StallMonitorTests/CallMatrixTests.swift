import CLinux
import Glibc
import StallReport
import Synchronization
import TestSupport
import Testing
import VictimC

@testable import StallCapture
@testable import StallMonitor

extension CapturesInThisProcess {
  /// Every kind of blocking call, made with no retry of its own while its thread is captured fifty times: it must end as it
  /// does unwatched.
  @Suite(.serialized)
  struct CallMatrixTests {
    /// A thread that makes one call.
    private final class Caller: Sendable {
      let index: Int
      let thread = Atomic<Int32>(0)
      let isDone = Atomic<Bool>(false)
      let outcome = Mutex<victim_outcome>(victim_outcome())

      init(_ index: Int) { self.index = index }

      func run() {
        admitSignals()
        thread.store(clinux_gettid(), ordering: .releasing)
        let result = victim_call_run(index)
        outcome.withLock { $0 = result }
        isDone.store(true, ordering: .releasing)
      }
    }

    /// Makes the call; `capture` is called when its thread exists.
    private func make(_ index: Int, capture: ((Int32, borrowing Atomic<Bool>) -> Void)? = nil) -> victim_outcome {
      let caller = Caller(index)
      var handle = pthread_t()
      pthread_create(
        &handle, nil,
        { argument in
          Unmanaged<Caller>.fromOpaque(argument!).takeUnretainedValue().run()
          return nil
        }, Unmanaged.passUnretained(caller).toOpaque())
      while caller.thread.load(ordering: .acquiring) == 0 { sched_yield() }
      capture?(caller.thread.load(ordering: .acquiring), caller.isDone)
      pthread_join(handle, nil)
      return caller.outcome.withLock { $0 }
    }

    @Test(arguments: 0..<victim_call_count)
    func callEndsAsItDoesUnwatched(index: Int) throws {
      let name = String(cString: victim_call_name(index))
      let unwatched = make(index)
      // Linux before 5.11 has no epoll_pwait2.
      guard name != "epoll_pwait2" || unwatched.error != ENOSYS else { return }
      let capture = ThreadCapture(of: .own)
      // The first preparation of a process takes longer than some calls.
      capture.prepareThread()
      var stacks = 0
      var lost: [CaptureFailure] = []
      func watch(_ thread: Int32, _ isDone: borrowing Atomic<Bool>) {
        let probe = ThreadProbe(thread: thread, of: .own)
        for _ in 0..<50 where !isDone.load(ordering: .acquiring) {
          switch capture.capture(probe, stackEnd: 0).backtrace {
          case .success: stacks += 1
          case .failure(let failure): lost.append(failure)
          }
          usleep(800)
        }
      }
      var watched = make(index, capture: watch)
      // On an emulated processor, and on a busy machine, one capture may take as long as the call.
      let enough = TestMachine.isEmulated ? 1 : 3
      for _ in 0..<5 where stacks < enough { watched = make(index, capture: watch) }
      #expect(watched.result == unwatched.result, "\(name)")
      #expect(watched.error == unwatched.error, "\(name): errno")
      // The capture must not cut the call short, or restart a relative timeout. A thread that ends the call may start before the call.
      let least = min(unwatched.elapsed_ms, Double(VICTIM_CALL_MS)) * 0.75 - 2
      #expect(watched.elapsed_ms > least, "\(name): \(watched.elapsed_ms) ms")
      #expect(watched.elapsed_ms < unwatched.elapsed_ms * 1.9 + 1000, "\(name): \(watched.elapsed_ms) ms")
      #expect(stacks >= enough, "\(name): \(stacks) stacks, lost \(lost)")
    }
  }
}
