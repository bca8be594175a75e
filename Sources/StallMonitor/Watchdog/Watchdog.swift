import CLinux
import PlatformLibc
import StallCapture
import Synchronization

/// The one thread that watches all loops of a process, as other threads see it.
///
/// It blocks the service's signals, and takes no lock that the service's code holds for longer than a registration. What it does is
/// ``WatchdogWork``.
final class Watchdog: Sendable {
  /// Makes the pulses that wake this watchdog.
  let pulses = PulseFactory(semaphore: WakeSemaphore())
  /// The loops that are watched.
  let list: WatchList

  private static let longestStop = Duration.seconds(10)

  private let processID = getpid()
  private let state = WatchdogState()
  private let thread = Mutex<clinux_thread_t?>(nil)

  init() { list = WatchList(semaphore: pulses.semaphore) }

  /// What wakes the thread.
  var semaphore: WakeSemaphore { pulses.semaphore }

  /// How often the thread has woken since it started.
  var wakeUpCount: UInt64 { state.wakeUps.load(ordering: .relaxed) }

  /// Starts the thread, with a descriptor table of its own, and waits until it has what it needs.
  ///
  /// - Parameters:
  ///   - kept: The descriptor of the service's that the thread keeps, 0 to 2; nil for none.
  ///   - makeWork: Makes what the thread does. Called on it, so that its files are opened there.
  /// - Throws: What `makeWork` throws, or that the thread cannot be created.
  func start(
    keeping kept: Int32?, _ makeWork: @escaping @Sendable () throws(StallMonitorError) -> WatchdogWork
  ) throws(StallMonitorError) {
    let outcome = StartOutcome()
    let handle: clinux_thread_t
    do throws(OwnThreads.Failure) {
      handle = try OwnThreads.startApart(name: "stall-watchdog", keeping: kept) { [state] in
        do throws(StallMonitorError) {
          let work = try makeWork()
          outcome.report(nil)
          work.run(state)
          state.hasEnded.post()
        } catch {
          outcome.report(error)
        }
      }
    } catch {
      throw StallMonitorError(error)
    }
    if let error = outcome.wait() {
      clinux_thread_join(handle)
      throw error
    }
    thread.withLock { $0 = handle }
  }

  /// How the start of the thread went.
  private final class StartOutcome: Sendable {
    private let error = Mutex<StallMonitorError?>(nil)
    private let isKnown = WakeSemaphore()

    func report(_ error: StallMonitorError?) {
      self.error.withLock { $0 = error }
      isKnown.post()
    }

    func wait() -> StallMonitorError? {
      isKnown.wait()
      return error.withLock { $0 }
    }
  }

  /// Stops the thread, and waits until it has written what it can.
  ///
  /// Idempotent. The thread waits for lines that cannot be written for 1.5 s at most, and for memory for 0.5 s. A thread that hangs (in a
  /// file system, or in the runtime in the child of a fork, which has the runtime's locks as its parent had them) is left alone.
  func stop() {
    let handle = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    // In the child of a fork there is no such thread.
    guard let handle, getpid() == processID else { return }
    state.isStopping.store(true, ordering: .releasing)
    semaphore.post()
    guard state.hasEnded.wait(for: Self.longestStop) else {
      _ = clinux_thread_detach(handle)
      return Diagnostics.say("the monitor's thread did not stop; what it had not reported is lost")
    }
    clinux_thread_join(handle)
    list.releaseRetired()
    // The line itself needs less than a check does.
    let loops = state.abandonedLoops.exchange(0, ordering: .relaxed)
    guard loops > 0, AvailableMemory.isEnoughForACheck else { return }
    Diagnostics.say(
      "stalls were not reported (loops: \(loops)): the process had no memory for a report until the monitor stopped")
  }
}

/// What the watchdog's thread shares with the threads that start and stop it.
final class WatchdogState: Sendable {
  let isStopping = Atomic<Bool>(false)
  /// Posted when the thread has done its work.
  let hasEnded = WakeSemaphore()
  let wakeUps = Atomic<UInt64>(0)
  /// How many loops had a stall at the end that was not reported, as there was no memory.
  let abandonedLoops = Atomic<Int>(0)
}
