import Glibc

/// The sink that a configuration asks for, before the watch begins.
struct SinkPlan {
  private let writer: LineWriter?
  private let isAgent: Bool

  init(_ sink: StallMonitorConfiguration.Sink) {
    isAgent = if case .agent = sink { true } else { false }
    writer =
      switch sink {
      case .standardOutput: LineWriter(.descriptor(1))
      case .file(let path): LineWriter(.file(path: path))
      // It need not be there yet.
      case .agent: nil
      }
  }

  /// Opens it; an errno value if that fails.
  func open() -> Int32? { writer?.open() }

  /// Where loops note that a stall is over; nil if nobody reads it.
  func makeRecoveryPage(sentinel: ForkSentinel) -> RecoveryPage? { isAgent ? RecoveryPage(sentinel: sentinel) : nil }

  /// Makes it ready for lines.
  ///
  /// Throws if it needs a thread and there is none to be had.
  func start(
    _ configuration: StallMonitorConfiguration, environment: Environment, origin: StallReport.Origin,
    tunings: TuningBox,
    watchdog: WatchdogSemaphore, recovery: RecoveryPage? = nil
  ) throws(StallMonitorError) -> any ReportSink {
    guard case .agent(let path) = configuration.sink else { return writer ?? LineWriter(.descriptor(1)) }
    let sink = AgentSink { watchdog.post() }
    let place = spoolPlace(configured: configuration.stateDirectory, environment: environment, origin: origin)
    try sink.start {
      AgentClient(
        sink: $0, path: path, origin: origin, place: place, box: tunings, configuration: configuration,
        recovery: recovery)
    }
    return sink
  }

  /// Where lines for the agent may outlive the process; nil where that is nowhere.
  private func spoolPlace(
    configured: String?, environment: Environment, origin: StallReport.Origin
  ) -> Spool.Place? {
    let own = configured ?? environment.serviceStateDirectory
    // In memory, where there is no other place: what waits then outlives the process, though not the machine.
    let path = own ?? "/dev/shm"
    do throws(StateDirectory.Failure) {
      let directory = try StateDirectory(path: path)
      try directory.checkWritable()
      let prefix = AbandonedFiles.prefix("stallspool", service: [origin.serviceName, path])
      return Spool.Place(directory: directory, prefix: prefix, isShared: own == nil)
    } catch {
      Diagnostics.say(
        "the state directory \(path) cannot be used: \(error.reason). What the agent has not taken when the service ends is lost"
      )
      return nil
    }
  }
}
