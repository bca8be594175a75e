import CLinux

/// Makes the pulses that wake one watchdog, and the clock that reads them.
struct PulseFactory: Sendable {
  /// What a pulse posts.
  let semaphore: WakeSemaphore
  // Whether the kernel lets the watchdog fence for the loops.
  private let hasBarrier = clinux_barrier_register()
  // Whether pulses are stamped with the processor's counter.
  private let countsTicks = PulseClock.countsTicks()

  /// A factory of pulses that post this semaphore.
  init(semaphore: WakeSemaphore) { self.semaphore = semaphore }

  /// A pulse that wakes the watchdog; `marks` is where it stores the end of a followed turn.
  func makePulse(marks: EndMarks? = nil) -> Pulse {
    Pulse(semaphore: semaphore, fencesItself: !hasBarrier, countsTicks: countsTicks, marks: marks)
  }

  /// A clock for the stamps of these pulses, from now on.
  func makeClock() -> PulseClock { PulseClock(countingTicks: countsTicks) }
}
