import CLinux
import Glibc
import Synchronization

/// The one thread that watches all loops of a process.
///
/// It parks on the semaphore while nothing moves, and otherwise sleeps until the earliest moment at which a turn could be
/// late. It blocks the host's signals, and takes no lock that the host's code holds
/// for longer than a registration.
final class Watchdog: Sendable {
  /// When a destination that takes no lines is tried again: at first, and at most, in nanoseconds.
  private static let retryIntervals: ClosedRange<UInt64> = 200_000_000...10_000_000_000

  let semaphore = WatchdogSemaphore()
  /// Whether the kernel lets the watchdog fence for the loops.
  let hasBarrier: Bool
  /// Whether pulses are stamped with the processor's counter.
  let countsTicks = PulseClock.countsTicks()

  private let origin: StallReport.Origin
  private let isStopping = Atomic<Bool>(false)
  private let wakeUps = Atomic<UInt64>(0)
  // Host threads hold it for an append; the watchdog only tries it.
  private let arrivals = Mutex<[WatchedLoop.Subject]>([])
  private let hasArrivals = Atomic<Bool>(false)
  private let thread = Mutex<pthread_t?>(nil)

  /// Where the lines go.
  ///
  /// Handed to the thread when it starts.
  private struct Outfit: @unchecked Sendable {  // Made by the starter, used by the watchdog's thread alone.
    var watchdog: Watchdog
    var writer: LineWriter
    var capture: ThreadCapture
    var resolver: FrameResolver
  }

  init(origin: StallReport.Origin) {
    self.origin = origin
    hasBarrier = clinux_barrier_register()
  }

  /// How often the thread has woken since it started.
  var wakeUpCount: UInt64 { wakeUps.load(ordering: .relaxed) }

  /// Starts the thread.
  ///
  /// Throws if there is none to be had.
  func start(
    writer: LineWriter, capture: ThreadCapture, resolver: FrameResolver
  ) throws(StallMonitorError) {
    let outfit = Box(Outfit(watchdog: self, writer: writer, capture: capture, resolver: resolver))
    // The new thread inherits the mask: no signal of the host's is ever delivered to it. Those that a crash raises are the
    // thread's own, and Swift's crash handler stops the other threads by SIGPROF to print their backtraces.
    var all = sigset_t()
    var previous = sigset_t()
    sigfillset(&all)
    for number in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPROF] { sigdelset(&all, number) }
    pthread_sigmask(SIG_SETMASK, &all, &previous)
    var handle = pthread_t()
    let code = pthread_create(
      &handle, nil,
      { argument in
        let outfit = Unmanaged<Box<Outfit>>.fromOpaque(argument!).takeRetainedValue().value
        OwnThreads.including { outfit.watchdog.run(outfit) }
        return nil
      }, Unmanaged.passRetained(outfit).toOpaque())
    pthread_sigmask(SIG_SETMASK, &previous, nil)
    guard code == 0 else {
      Unmanaged.passUnretained(outfit).release()
      throw .noThread(code: code)
    }
    thread.withLock { $0 = handle }
  }

  /// Watches a loop from now on.
  func watch(_ subject: WatchedLoop.Subject) {
    arrivals.withLock { $0.append(subject) }
    hasArrivals.store(true, ordering: .releasing)
    semaphore.post()
  }

  /// Stops the thread, and waits until it has written what it can.
  ///
  /// Idempotent; not from the watchdog itself.
  func stop() {
    let handle = thread.withLock { handle in
      defer { handle = nil }
      return handle
    }
    // In the child of a fork there is no such thread.
    guard let handle, getpid() == origin.processID else { return }
    isStopping.store(true, ordering: .releasing)
    semaphore.post()
    pthread_join(handle, nil)
  }

  // MARK: The thread

  private func run(_ outfit: Outfit) {
    clinux_set_thread_name("stall-watchdog")
    clinux_set_timer_slack(1)
    outfit.resolver.prepareThread()
    var loops: [WatchedLoop] = []
    var round = Round(watchdog: self, outfit: outfit)
    // When the thread should next be awake; nil after it was woken by a post.
    var planned: UInt64?
    var frozen: UInt64 = 0
    var retry = Self.retryIntervals.lowerBound
    var freezes = FreezeDetector()
    let clock = PulseClock(countingTicks: countsTicks)
    while !isStopping.load(ordering: .acquiring) {
      clock.observe()
      admit(to: &loops, clock: clock)
      let now = MonotonicClock.now()
      if let planned, now > planned { frozen = freezes.frozen(lateness: now - planned) }
      planned = nil
      var next: UInt64?
      for loop in loops {
        guard let time = round.follow(loop, frozen: frozen) else { continue }
        next = min(next ?? .max, time)
      }
      frozen = 0
      if outfit.writer.isWaiting { outfit.writer.flush() }
      if outfit.writer.isWaiting {
        next = min(next ?? .max, now + retry)
        retry = min(2 * retry, Self.retryIntervals.upperBound)
      } else {
        retry = Self.retryIntervals.lowerBound
      }
      freezes.willWait()
      // Whatever the watchdog's own work took is nobody's freeze: lateness counts from the beginning of the wait.
      let waitBegan = MonotonicClock.now()
      if let next {
        if !semaphore.wait(until: next) { planned = max(next, waitBegan) }
      } else {
        frozen = freezes.frozen(lateness: park(loops, clock: clock, since: waitBegan))
      }
      wakeUps.add(1, ordering: .relaxed)
    }
    round.finish(loops)
    outfit.writer.flush()
  }

  private func admit(to loops: inout [WatchedLoop], clock: PulseClock) {
    guard hasArrivals.exchange(false, ordering: .acquiring) else { return }
    let new = arrivals.withLockIfAvailable { arrivals in
      defer { arrivals = [] }
      return arrivals
    }
    guard let new else { return hasArrivals.store(true, ordering: .releasing) }
    loops += new.map { WatchedLoop($0, clock: clock) }
  }

  /// Waits for any loop to move.
  ///
  /// Returns how long ago that was, of the time since the wait began.
  private func park(_ loops: [WatchedLoop], clock: PulseClock, since waitBegan: UInt64) -> UInt64 {
    for loop in loops where !loop.isSuspended { loop.subject.pulse.requestWake() }
    loops.first?.subject.pulse.fence()
    // Against the last look, and not against now: a turn that began in between would never be seen.
    if !loops.contains(where: \.hasMoved) { semaphore.wait() }
    for loop in loops { loop.subject.pulse.cancelWake() }
    // The loop that moved posted as its turn began: whatever lies between there and here, it was not asleep in it.
    clock.observe()
    let now = MonotonicClock.now()
    return min(loops.map { $0.age(at: now) }.max() ?? 0, now - waitBegan)
  }

  /// What the thread does for each loop that needs it.
  private struct Round {
    let watchdog: Watchdog
    let outfit: Outfit
    var sequence: UInt64 = 0

    /// Looks at a loop and does what is due.
    ///
    /// Returns when to look again, or nil while nothing moves.
    mutating func follow(_ loop: WatchedLoop, frozen: UInt64) -> UInt64? {
      var frozen = frozen
      // Each step leads to another look; a bound, so that one loop cannot keep the thread for itself.
      for _ in 0..<4 {
        let now = MonotonicClock.now()
        let step = loop.look(at: now, frozen: frozen)
        frozen = 0
        switch step {
        case .quiet: return nil
        case .lookAgain(let time): return time
        case .late(let turn):
          guard loop.beginEpisode(turn: turn, id: Self.makeIdentifier(), now: now) else { continue }
          outfit.capture.flush()
          outfit.resolver.flush()
          loop.takeSample(with: outfit.capture, resolver: outfit.resolver)
          send(loop.report(.started, end: now, origin: watchdog.origin))
        case .due(let sample, let ongoing):
          if sample || ongoing { loop.takeSample(with: outfit.capture, resolver: outfit.resolver) }
          if ongoing {
            // It may have ended while it was sampled; then its end is told, and not that it goes on.
            if loop.subject.pulse.episodeEnd != nil { continue }
            send(loop.report(.ongoing, end: now, origin: watchdog.origin))
            loop.didReportOngoing(at: now)
          }
        case .ended(let end):
          send(loop.report(.ended, end: end, origin: watchdog.origin))
          loop.endEpisode()
        }
      }
      return MonotonicClock.now()
    }

    /// Closes what is open when the watch ends in mid-stall.
    mutating func finish(_ loops: [WatchedLoop]) {
      for loop in loops where loop.isStalled {
        let end = loop.subject.pulse.episodeEnd
        send(
          loop.report(.ended, end: end ?? MonotonicClock.now(), origin: watchdog.origin, watchEnded: end == nil))
        loop.endEpisode()
      }
    }

    private mutating func send(_ report: StallReport?) {
      guard var report else { return }
      sequence += 1
      report.sequence = sequence
      report.droppedLines = outfit.writer.takeDropped()
      outfit.writer.write(report.line())
      outfit.resolver.trim()
    }

    /// 128 random bits in hexadecimal.
    private static func makeIdentifier() -> String {
      var bytes: (UInt64, UInt64) = (0, 0)
      let filled = withUnsafeMutableBytes(of: &bytes) { clinux_random($0.baseAddress, $0.count) }
      if !filled { bytes = (MonotonicClock.now(), UInt64(getpid())) }
      return withUnsafeBytes(of: &bytes) { hexadecimal($0) }
    }
  }
}

/// A value on the heap, for a C callback.
private final class Box<Value> {
  let value: Value
  init(_ value: Value) { self.value = value }
}
