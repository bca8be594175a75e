import CLinux
import PlatformLibc
import StallCapture
import StallDetection
import StallReport
import Synchronization

/// Watches the main loop of this process and the threads of Swift concurrency, and reports each turn
/// that takes too long.
///
/// ```swift
/// import LoopEngine
/// import StallMonitor
///
/// let monitor = try StallMonitor.start()
/// Loop.main.run()
/// ```
///
/// A stall becomes JSON lines: `stall.started` the moment it is known, `stall.ongoing` while it lasts longer than a
/// second, and `stall.ended` with its full duration. `Config/schema/stall-report.schema.json` describes them.
///
/// Watching adds 2 to 34 ns to a turn (`Documentation/Performance.md`). The watchdog thread sleeps
/// while run loops are idle. Thread-safe: every method may be called from any thread.
public final class StallMonitor: Sendable {
  /// The configuration that the monitor uses: the one in code, overridden by environment variables.
  ///
  /// It does not contain the settings that an agent sends.
  public let configuration: StallMonitorConfiguration

  private let session: Mutex<WatchSession?>
  // Whether `stop()` has not returned yet.
  private let isStopping = Atomic<Bool>(false)
  // Why nothing was watched from the beginning.
  private let startProblem: String?
  // Names of loops that were said not to be watched, so many at most.
  private let unknownLoops = Mutex<Set<String>>([])
  private static let unknownLoopLimit = 8
  // The child of a fork may find a lock held by a thread that it does not have: there, nothing is locked.
  private let sentinel: ForkSentinel

  // A monitor watches until it is stopped, whether or not its maker keeps it.
  private static let active = Mutex<StallMonitor?>(nil)

  /// The monitor that watches this process; nil if none does.
  ///
  /// From any thread, but not from the child of a fork.
  public static var current: StallMonitor? { active.withLock { $0?.isWatching == true ? $0 : nil } }

  private init(
    configuration: StallMonitorConfiguration, session: consuming sending WatchSession, sentinel: ForkSentinel
  ) {
    self.configuration = configuration
    self.sentinel = sentinel
    self.session = Mutex(session)
    startProblem = nil
  }

  /// A monitor that watches nothing, for this reason.
  private init(configuration: StallMonitorConfiguration, unwatchedBecause problem: String) {
    self.configuration = configuration
    sentinel = ForkSentinel()
    session = Mutex(nil)
    startProblem = problem
  }

  /// Starts to watch the main loop (`Loop.main`, Foundation's run loop, or the main queue) and the
  /// threads of Swift concurrency, until ``stop()``.
  ///
  /// The `STALLMONITOR_` variables override `configuration`. An invalid variable, or a file in
  /// `STALLMONITOR_SINK` that cannot be opened, is logged once (to the configuration's logger, or
  /// to standard error), and the service runs and is not watched: a wrong variable never prevents a
  /// start. The monitor keeps running if the caller does not keep the result.
  ///
  /// Call it once, early, preferably on the main thread. It takes a few milliseconds, opens
  /// libunwind and libdw, and starts three threads, which have a descriptor table of their own. In a
  /// process with libdispatch it starts a fourth one, which uses the service's table. That one
  /// ends when a run loop has been idle for a threshold, or has turned for four thresholds; it stays
  /// while a main queue or another loop is watched by heartbeats. `Documentation/Guarantees.md`
  /// lists all that a watched process can notice.
  ///
  /// - Parameter configuration: What to watch for, in code.
  /// - Returns: The monitor. If it does not watch, ``notWatchingReason`` has the reason: it is disabled,
  ///   a variable is invalid, or standard output or the file in `STALLMONITOR_SINK` cannot be opened.
  /// - Throws: ``StallMonitorError`` if the configuration in code is invalid (for example, its file
  ///   cannot be opened), if a monitor watches this process already, or if a thread cannot be created.
  @discardableResult
  public static func start(
    _ configuration: StallMonitorConfiguration = StallMonitorConfiguration()
  ) throws(StallMonitorError) -> StallMonitor {
    try start(configuration, environment: .current())
  }

  /// Starts a monitor that watches no loop yet: for a service whose main loop the monitor cannot
  /// find by itself.
  package static func startWithoutMainLoop(
    _ configuration: StallMonitorConfiguration
  ) throws(StallMonitorError) -> StallMonitor {
    try start(configuration, environment: .current(), watchesMainLoop: false)
  }

  static func start(
    _ configuration: StallMonitorConfiguration, environment: Environment, watchesMainLoop: Bool = true
  ) throws(StallMonitorError) -> StallMonitor {
    try configuration.check()
    let telemetry = TelemetryExporter(configuration.telemetry)
    Diagnostics.hand(to: telemetry)
    do throws(StallMonitorError) {
      let monitor = try begin(
        configuration, environment: environment, watchesMainLoop: watchesMainLoop, telemetry: telemetry)
      if !monitor.isWatching { telemetry?.end() }
      return monitor
    } catch {
      telemetry?.end()
      throw error
    }
  }

  private static func begin(
    _ configuration: StallMonitorConfiguration, environment: Environment, watchesMainLoop: Bool,
    telemetry: TelemetryExporter?
  ) throws(StallMonitorError) -> StallMonitor {
    var configuration = configuration
    let problems = environment.apply(to: &configuration)
    for note in environment.notes(replacedKeys: configuration.replacedKeys) { Diagnostics.say(note) }
    for problem in problems { Diagnostics.say("\(problem). The service runs and is not watched") }
    let serviceManager =
      configuration.notifiesSystemdWatchdog
        || problems.contains { MonitorSetting.systemdWatchdog.names.contains($0.name) }
      ? ServiceManagerWatchdog(environment: environment) : nil
    guard problems.isEmpty, configuration.isEnabled else {
      if problems.isEmpty { Diagnostics.note("Stall monitor disabled") }
      serviceManager?.release()
      let reason = problems.isEmpty ? environment.whatDisables : problems.map(\.description).joined(separator: ". ")
      return StallMonitor(configuration: configuration, unwatchedBecause: reason)
    }
    do throws(StallMonitorError) {
      return try beginOnce(
        configuration, environment: environment, serviceManager: serviceManager, watchesMainLoop: watchesMainLoop,
        telemetry: telemetry)
    } catch {
      guard case .sinkCannotBeOpened(let sink, let reason) = error.reason else { throw error }
      defer { serviceManager?.release() }
      // The default need not be what the code wants: a service may run without standard output.
      guard environment.setsSink || configuration.sink == .standardOutput else { throw error }
      let name = environment.setsSink ? "STALLMONITOR_SINK=\(sink)" : "the sink \(sink)"
      let problem = "cannot open \(name): \(reason)"
      Diagnostics.say("\(problem). The service runs and is not watched")
      return StallMonitor(configuration: configuration, unwatchedBecause: problem)
    }
  }

  /// Begins the watch, unless another monitor of this process watches.
  private static func beginOnce(
    _ configuration: StallMonitorConfiguration, environment: Environment, serviceManager: ServiceManagerWatchdog?,
    watchesMainLoop: Bool, telemetry: TelemetryExporter?
  ) throws(StallMonitorError) -> StallMonitor {
    try active.withLock { active throws(StallMonitorError) in
      if active?.isInUse == true { throw StallMonitorError(.alreadyWatching) }
      let sentinel = ForkSentinel()
      let start = WatchStart(
        configuration: configuration, environment: environment, sentinel: sentinel, serviceManager: serviceManager,
        telemetry: telemetry)
      let session = try start.begin(watchesMainLoop: watchesMainLoop)
      let monitor = StallMonitor(configuration: configuration, session: session, sentinel: sentinel)
      active = monitor
      Diagnostics.note(
        "Stall monitor started", ["threshold": "\(configuration.threshold)", "sink": "\(configuration.sink)"])
      return monitor
    }
  }

  /// Whether the monitor watches: false if it was disabled, misconfigured or stopped, and in the
  /// child of a fork.
  public var isWatching: Bool { sentinel.isInOwnProcess && session.withLock { $0 != nil } }

  // In this order: who sees no session sees that it is being ended.
  private var isInUse: Bool { isWatching || (sentinel.isInOwnProcess && isStopping.load(ordering: .acquiring)) }

  /// Why the monitor does not watch, in one line for people; nil while it watches.
  ///
  /// For example, `STALLMONITOR_THRESHOLD=fast is invalid; allowed: …`.
  public var notWatchingReason: String? {
    if let startProblem { return startProblem }
    if !sentinel.isInOwnProcess { return "this process is the child of a fork" }
    return isWatching ? nil : "the monitor was stopped"
  }

  /// The loops that are watched at this moment, the main loop first.
  ///
  /// The list includes each thread of Swift concurrency that has run a task (all named
  /// `task-pool`), and the pool as a whole (`cooperative`). Empty if the monitor does not watch.
  /// Takes a lock for a moment; from any thread.
  public var watchedLoops: [WatchedLoopStatus] {
    guard sentinel.isInOwnProcess else { return [] }
    guard let list = session.withLock({ $0?.watchdog.list }) else { return [] }
    let threshold = list.agentThreshold.load(ordering: .relaxed)
    return list.subjects.map { WatchedLoopStatus($0, agentThreshold: threshold) }
  }

  /// The loops that are watched; nil if the monitor does not watch.
  var registry: LoopRegistry? { sentinel.isInOwnProcess ? session.withLock { $0?.registry } : nil }

  /// Begins to watch Foundation's run loop of the main thread, if that has come to exist.
  func lookForMainRunLoop() {
    if sentinel.isInOwnProcess { session.withLock { $0?.mainThread }?.lookForRunLoop() }
  }

  /// How often the watchdog thread has woken up; 0 if there is none.
  ///
  /// An idle service's does not grow.
  package var watchdogWakeUps: UInt64 {
    sentinel.isInOwnProcess ? session.withLock { $0?.watchdog.wakeUpCount ?? 0 } : 0
  }

  /// Ignores the turns of all loops until ``resume()``; for work that is known to be slow.
  ///
  /// Pauses nest. A stall that has been reported is still followed to its end. Lock-free on the
  /// loops' side; from any thread.
  public func pause() {
    guard sentinel.isInOwnProcess else { return }
    session.withLock { $0?.suspension }?.begin()
  }

  /// Undoes one ``pause()``.
  ///
  /// The time of the pause is not counted as the current turn's. Without a pause nothing happens.
  public func resume() {
    guard sentinel.isInOwnProcess else { return }
    session.withLock { session in
      guard let session, session.suspension.end() else { return }
      session.watchdog.semaphore.post()
    }
  }

  /// Runs work that is expected to be slow, and suspends the watch of a loop (or of all loops)
  /// meanwhile.
  ///
  /// ```swift
  /// try monitor.expectSlow(on: "main") { try index.load() }
  /// ```
  ///
  /// - Parameters:
  ///   - loop: The name of the loop that is not watched meanwhile, such as `main`; nil is all
  ///     loops. A name that no watched loop has changes nothing, and is logged once.
  ///   - body: The slow work. Called once, on the calling thread.
  /// - Returns: The result of the work.
  /// - Throws: The error of the work.
  public func expectSlow<Result, Failure: Error>(
    on loop: String? = nil, _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let pause = pause(of: loop)
    defer { pause?.end() }
    return try body()
  }

  /// Runs asynchronous work that is expected to be slow, and suspends the watch of a loop (or of
  /// all loops) meanwhile.
  ///
  /// The loop is not watched until the work has ended, also while the work is suspended. Pass `on:`
  /// with the loop that the work blocks; otherwise no loop is watched during that time.
  ///
  /// - Parameters:
  ///   - loop: The name of the loop that is not watched meanwhile, such as `main`; nil is all
  ///     loops. A name that no watched loop has changes nothing, and is logged once.
  ///   - isolation: The actor that the work runs on; the caller's.
  ///   - body: The slow work. Called once.
  /// - Returns: The result of the work.
  /// - Throws: The error of the work.
  public func expectSlow<Result, Failure: Error>(
    on loop: String? = nil, isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let pause = pause(of: loop)
    defer { pause?.end() }
    return try await body()
  }

  /// Says once of a name that no watched loop has it.
  private func sayUnknown(_ name: String, among watched: [String]) {
    let isNew = unknownLoops.withLock { $0.count < Self.unknownLoopLimit && $0.insert(name).inserted }
    guard isNew else { return }
    let names = Set(watched).sorted().joined(separator: ", ")
    Diagnostics.say("expectSlow(on: \"\(name)\") has no effect: no watched loop has this name; watched are: \(names)")
  }

  /// A pause that has begun, of one loop or of all.
  private struct Pause {
    var suspensions: [Suspension]
    var semaphore: WakeSemaphore
    var sentinel: ForkSentinel

    func end() {
      guard sentinel.isInOwnProcess else { return }
      for suspension in suspensions { _ = suspension.end() }
      semaphore.post()
    }
  }

  /// Ignores the turns of the loop of this name, or of all loops; nil if the monitor does not
  /// watch.
  private func pause(of loop: String?) -> Pause? {
    guard sentinel.isInOwnProcess, let session = session.withLock({ $0 }) else { return nil }
    let suspensions = loop.map(session.suspensions) ?? [session.suspension]
    if let loop, suspensions.isEmpty { sayUnknown(loop, among: session.loopNames) }
    for suspension in suspensions { suspension.begin() }
    return Pause(suspensions: suspensions, semaphore: session.watchdog.semaphore, sentinel: sentinel)
  }

  /// Captures the call stacks of all threads of this process, with function names.
  ///
  /// Needs no monitor, and may be called from any thread but not from a signal handler; calls wait
  /// for each other. The caller is blocked meanwhile, and is in the result. The threads are captured
  /// one after the other, each at its own moment. The stack of a blocked thread is read without
  /// touching the thread. A running thread is sampled by a perf event. Where perf events are not
  /// permitted, the thread of a watched loop gets one signal, whose handler copies for some 10 us on
  /// the thread's alternate stack, and other running threads have a `failure`. Print the result for
  /// text.
  ///
  /// It costs about 100 us for a blocked thread and 5 ms for one that runs, and the first call some hundred milliseconds for
  /// reading symbols. It allocates, makes a thread, and opens libunwind and libdw if no monitor has.
  ///
  /// - Parameter timeLimit: When it is reached, the threads not yet captured get a `failure`, and the frames not yet named get no name.
  /// - Returns: All threads but this library's own; none if no thread could be made.
  public static func captureAllThreads(timeLimit: Duration = .seconds(5)) -> [ThreadBacktrace] {
    ThreadDump.take(timeLimit: max(.zero, min(timeLimit, .seconds(3600))).nanoseconds)
  }

  /// Stops watching, and waits until the reports in progress are written, as far as their reader
  /// accepts them.
  ///
  /// A stall that lasts at this moment gets its `stall.ended` now, marked `watch_ended`. Idempotent. In the child of a fork, which is not
  /// watched, nothing happens. ``start(_:)`` throws `alreadyWatching` until this has returned.
  public func stop() {
    guard sentinel.isInOwnProcess else { return }
    let ended = session.withLock { session in
      if session != nil { isStopping.store(true, ordering: .releasing) }
      defer { session = nil }
      return session
    }
    guard let ended else { return }
    ended.end()
    isStopping.store(false, ordering: .releasing)
  }

  /// What a loop that is watched by heartbeats needs of the watch.
  struct HeartbeatResources {
    var watchdog: Watchdog
    var suspension: Suspension
    var publication: LoopPublication
    /// Posts the heartbeats.
    var courier: Courier
  }

  /// What a loop that is watched by heartbeats needs of the watch; nil if there is none.
  func heartbeatResources() -> HeartbeatResources? {
    guard sentinel.isInOwnProcess else { return nil }
    return session.withLock { session in
      session.map {
        HeartbeatResources(
          watchdog: $0.watchdog, suspension: $0.suspension, publication: $0.registry.makePublication(),
          courier: $0.couriers.beats)
      }
    }
  }
}
