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
  /// A thread that is seen inside a system call is not signalled: a transfer that a signal would end early is whole, however often its thread is captured.
  @Suite(.serialized, .timeLimit(.minutes(2)))
  struct TransferTests {
    private final class Mover: @unchecked Sendable {  // The handle is set before the thread is shared.
      private var handle = pthread_t()
      let thread = Atomic<Int32>(0)
      let isDone = Atomic<Bool>(false)
      let missing = Atomic<Int>(0)
      private let transfer: victim_transfer

      init(_ transfer: victim_transfer) {
        self.transfer = transfer
        pthread_create(
          &handle, nil,
          { argument in
            let mover = Unmanaged<Mover>.fromOpaque(argument!).takeUnretainedValue()
            admitSignals()
            cunwind_prepare_thread_for_timer()
            mover.thread.store(clinux_gettid(), ordering: .releasing)
            mover.missing.store(victim_transfer_run(mover.transfer, 6), ordering: .releasing)
            mover.isDone.store(true, ordering: .releasing)
            cunwind_thread_ends()
            return nil
          }, Unmanaged.passUnretained(self).toOpaque())
        while thread.load(ordering: .acquiring) == 0 { sched_yield() }
      }

      func join() { pthread_join(handle, nil) }
    }

    @Test(
      arguments: [
        VICTIM_TRANSFER_RANDOM, VICTIM_TRANSFER_SENDFILE, VICTIM_TRANSFER_COPY_FILE_RANGE, VICTIM_TRANSFER_SEND,
      ], [true, false])
    func transferIsWhole(transfer: victim_transfer, usesPerf: Bool) throws {
      let capture = ThreadCapture(of: .own, mayUsePerf: usesPerf)
      let mover = Mover(transfer)
      let probe = ThreadProbe(thread: mover.thread.load(ordering: .acquiring), of: .own)
      var looks = 0
      while !mover.isDone.load(ordering: .acquiring) {
        _ = capture.capture(probe, stackEnd: 0, patience: 10_000_000)
        looks += 1
        usleep(1000)
      }
      mover.join()
      #expect(mover.missing.load(ordering: .acquiring) == 0, "bytes are missing, or the call has failed")
      #expect(looks > (TestMachine.isEmulated ? 1 : 3))
    }

    @Test("without perf events, a thread in a long call has no stack, and the report has the reason")
    func reason() throws {
      let capture = ThreadCapture(of: .own, mayUsePerf: false)
      let mover = Mover(VICTIM_TRANSFER_RANDOM)
      let probe = ThreadProbe(thread: mover.thread.load(ordering: .acquiring), of: .own)
      var failures: Set<CaptureFailure> = []
      while !mover.isDone.load(ordering: .acquiring) {
        if case .failure(let failure) = capture.capture(probe, stackEnd: 0, patience: 40_000_000).backtrace {
          failures.insert(failure)
        }
      }
      mover.join()
      #expect(failures.contains(.insideCall), "\(failures)")
      #expect(mover.missing.load(ordering: .acquiring) == 0)
    }
  }
}
