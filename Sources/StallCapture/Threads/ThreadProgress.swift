import StallReport

/// What the kernel had charged to a thread at one moment.
///
/// It explains later why no sample of the thread came.
struct ThreadProgress {
  private let run: UInt64?
  private let modes: (user: UInt64, kernel: UInt64)?

  init(of probe: borrowing ThreadProbe) {
    run = probe.schedule()?.runNanoseconds
    modes = probe.modeTimes()
  }

  /// Why a thread that was seen running all the time gave no sample.
  func whyNoSample(of probe: borrowing ThreadProbe) -> CaptureFailure {
    let now = ThreadProgress(of: probe)
    if let run, let runNow = now.run, runNow == run { return .noProcessor }
    // The kernel charges whole ticks: a short call may have added none to its kernel time, so only the user time is compared.
    if let modes, let modesNow = now.modes, modesNow.user == modes.user { return .insideCall }
    return .noAnswer
  }
}
