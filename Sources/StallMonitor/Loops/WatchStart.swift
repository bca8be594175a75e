import CLinux
import PlatformLibc
import StallCapture
import StallReport
import Synchronization

/// Begins the watch of a process.
struct WatchStart: Sendable {
  let configuration: StallMonitorConfiguration
  let environment: Environment
  let sentinel: ForkSentinel
  let serviceManager: ServiceManagerWatchdog?
  let telemetry: TelemetryExporter?

  /// Starts the watchdog and the output, and watches the main thread's loop if that is wanted.
  ///
  /// - Throws: ``StallMonitorError`` if the sink cannot be opened, or a thread cannot be created.
  func begin(watchesMainLoop: Bool) throws(StallMonitorError) -> WatchSession {
    let watchdog = Watchdog()
    let couriers = WatchSession.Couriers(
      telemetry: telemetry,
      actions: ActionPlan.needsCourier(configuration.actions) ? Courier(name: "stall-actions") : nil)
    let plan = SinkPlan(configuration, environment: environment)
    let kept = try plan.keptDescriptor()
    try startCouriers(couriers, of: watchdog)
    let recovery = plan.makeRecoveryPage(sentinel: sentinel)
    let keepsRecords = Atomic<Bool>(false)
    let hasOwnTable = Atomic<Bool>(false)
    let suspension = Suspension()
    StandardErrorQueue.hold(
      journalStream: environment.variables["JOURNAL_STREAM"] ?? "",
      identifier: ProcessFacts.executableName())
    defer { StandardErrorQueue.flush() }
    do throws(StallMonitorError) {
      try watchdog.start(keeping: kept) { () throws(StallMonitorError) in
        let work = try makeWork(
          of: watchdog, plan: plan, recovery: recovery, suspension: suspension, actionCourier: couriers.actions)
        keepsRecords.store(work.keepsRecords, ordering: .releasing)
        hasOwnTable.store(OwnThreads.isApart, ordering: .releasing)
        return work
      }
    } catch {
      couriers.actions?.end()
      throw error
    }
    let registry = LoopRegistry(
      watchdog: watchdog,
      recordsFactory: LoopRecordsFactory(
        sentinel: sentinel, keepsRecords: keepsRecords.load(ordering: .acquiring), recovery: recovery),
      suspension: suspension, configuration: configuration)
    registry.rehearse()
    var session = WatchSession(registry: registry, suspension: suspension, couriers: couriers)
    if watchesMainLoop {
      session.mainThread = MainThreadWatch(
        by: registry, beats: couriers.beats, suspension: suspension, configuration: configuration)
    }
    if configuration.watchesTaskPool {
      watchTasks(of: &session, sharesTable: !hasOwnTable.load(ordering: .acquiring))
    }
    return session
  }

  /// On the calling thread, so that they share the service's descriptor table.
  private func startCouriers(
    _ couriers: WatchSession.Couriers, of watchdog: Watchdog
  ) throws(StallMonitorError) {
    do throws(OwnThreads.Failure) {
      try couriers.telemetry?.start { watchdog.list.subjects.map(CountedLoop.init) }
    } catch {
      throw StallMonitorError(error)
    }
    if let actions = couriers.actions, !actions.addUser() { throw StallMonitorError(.noThread(code: EAGAIN)) }
  }

  /// Makes what the watchdog does; on its thread.
  ///
  /// All that takes the dynamic loader's lock happens here, and never during a stall.
  private func makeWork(
    of watchdog: Watchdog, plan: SinkPlan, recovery: RecoveryPage?, suspension: Suspension, actionCourier: Courier?
  ) throws(StallMonitorError) -> WatchdogWork {
    let capture = ThreadCapture(of: .own)
    capture.prepareThread()
    let executable = ProcessFacts.executablePath()
    let reader = FrameReader(executablePath: executable)
    let namer = FrameNamer()
    let serviceName = configuration.serviceName ?? ProcessFacts.executableName()
    let origin = Report.Origin(
      processID: getpid(), executablePath: executable,
      executableBuildID: reader.buildID(of: ProcessFacts.executableAddress()), serviceName: serviceName,
      serviceVersion: configuration.serviceVersion, hostName: ProcessFacts.hostName())
    let tunings = TuningBox()
    let semaphore = watchdog.semaphore
    let reporter = ReporterThread()
    let sink = try plan.start(origin: origin, tunings: tunings, recovery: recovery) {
      semaphore.post()
      reporter.wake()
    }
    sayWhatIsMissing(capture: capture, namer: sink.namesFrames ? nil : namer)
    let ledger = RepeatLedger(
      window: configuration.repeatWindow.nanoseconds, budget: configuration.maximumReportsPerMinute,
      now: MonotonicClock.now())
    let publisher = ReportPublisher(sink: sink, ledger: ledger, telemetry: telemetry) { reporter.takeLost() }
    let recorder = FatalRecorder.make(
      configured: configuration.stateDirectory, environment: environment, serviceName: serviceName)
    let records = StallRecords(recorder: recorder, recovery: recovery, publisher: publisher, sink: sink)
    let actions = ActionRunner(
      courier: actionCourier, publisher: publisher, records: records, writtenDetails: sink.writtenDetails)
    try reporter.start(
      StallReporter(origin: origin, namer: namer, publisher: publisher, records: records, actions: actions) {
        semaphore.post()
      })
    return WatchdogWork(
      of: watchdog,
      stalls: StallFollower(
        origin: origin, sampler: StallSampler(capture: capture, reader: reader), reporter: reporter,
        keepsRecords: recorder != nil || recovery != nil, plan: ActionPlan(configuration.actions)),
      settings: SettingsFollower(
        configuration, tunings: tunings, suspension: suspension, sinkNames: sink.namesFrames, list: watchdog.list),
      serviceManager: serviceManager, telemetry: telemetry, keepsRecords: recorder != nil)
  }

  /// Says what reports will lack in this process, and why; a line for each.
  private func sayWhatIsMissing(capture: ThreadCapture, namer: FrameNamer?) {
    let areThreadsKnown = HiddenThreads.check()
    if let problem = capture.problem { Diagnostics.say("reports will have no stacks: \(problem)") }
    if let problem = capture.samplingProblem {
      Diagnostics.say("reports will have no stacks of running threads: \(problem)")
    }
    if let problem = namer?.problem { Diagnostics.say("the stacks in reports will have no functions: \(problem)") }
    if areThreadsKnown, !ThreadProbe.countsRunDelay {
      Diagnostics.say(
        "reports will not have the causes starved and throttled: the kernel does not count how long threads wait for a CPU (schedstat)"
      )
    }
    if let problem = ProcessHandle.own.lockLayouts?.problem { Diagnostics.say(problem) }
  }

  /// Watches each job of Swift concurrency; where that cannot be, its threads and whether one is free.
  private func watchTasks(of session: inout WatchSession, sharesTable: Bool) {
    let (registry, courier) = (session.registry, session.couriers.beats)
    if TaskLayout.needsServicesThreadForYield, courier.addUser() {
      // Before the service's tasks take the pool's threads.
      let isOver = WakeSemaphore()
      courier.post {
        ProcessHandle.own.taskLayout?.findYield()
        isOver.post()
      }
      courier.removeUser()
      _ = isOver.wait(until: MonotonicClock.now() + TaskLayout.longestSearchForYield)
    }
    let suspension = Suspension(within: session.suspension)
    session.taskPoolSuspension = suspension
    let watch = TaskPool.Watch(
      list: session.watchdog.list, makePublication: { registry.makePublication() }, suspension: suspension,
      sentinel: sentinel, threshold: configuration.threshold.nanoseconds,
      backgroundThreshold: configuration.backgroundTaskThreshold.nanoseconds,
      threadLimit: TaskPool.threadLimit(sharesTable: sharesTable))
    let publication = registry.makePublication()
    let heartbeat: any HeartbeatSource
    do throws(TaskPool.Problem) {
      let pool = try TaskPool.start(watch)
      session.taskPool = pool
      heartbeat = WaitingTasks(pool, pulse: publication.pulse)
    } catch {
      Diagnostics.say(TaskPool.note(error))
      let workers = WorkerDiscovery(watch, wakesWatchdog: true)
      let pool = CooperativePoolHeartbeat(pulse: publication.pulse, courier: courier) { workers.scan() }
      session.pool = pool
      heartbeat = pool
    }
    session.watchdog.list.watch(
      WatchedLoop.Subject(
        label: .init(name: "cooperative", kind: { .cooperativePool }), thread: .init(id: getpid()),
        limits: .init(
          threshold: configuration.threshold.nanoseconds, suspension: Suspension(within: session.suspension)),
        publication: publication, heartbeat: heartbeat))
  }
}
