import CoreMetrics
import Dispatch
import Glibc
import Logging
import LoopEngine
import ServiceLifecycle
import StallMonitor
import Synchronization

/// A service that hands its log and its metrics in: it does one thing, and is judged from outside by its report lines, its log (on standard
/// error) and its metrics (said at its end).
///
///     EcosystemVictim SCENARIO
@main
struct EcosystemVictim {
  static func main() throws {
    var configuration = StallMonitorConfiguration()
    let metrics = MemoryMetrics()
    configuration.metricsFactory = metrics
    configuration.logger = Logger(label: "victim") { StreamLogHandler.standardError(label: $0) }
    let scenario = CommandLine.arguments.dropFirst().first ?? ""
    switch scenario {
    case "stall":
      let monitor = try StallMonitor.start(configuration)
      say("kind=\(monitor.watchedLoops.first?.kind?.rawValue ?? "unknown")")
      after(.milliseconds(150)) {
        blockTheLoop(milliseconds: 450)
        after(.milliseconds(100)) {
          say("kind_then=\(monitor.watchedLoops.first?.kind?.rawValue ?? "unknown")")
          blockTheLoop(milliseconds: 450)
        }
        after(.milliseconds(700)) { Loop.main.stop() }
      }
      Loop.main.run()
      monitor.stop()
    case "repeated":
      let monitor = try StallMonitor.start(configuration)
      let left = Atomic<Int>(3)
      let timer = Loop.Timer(after: .milliseconds(150), repeats: true) { _ in
        blockTheLoop(milliseconds: 450)
        if left.subtract(1, ordering: .relaxed).newValue == 0 { Loop.main.stop() }
      }
      Loop.main.add(timer)
      DispatchQueue.global().async {
        for _ in 0..<5000 where metrics.value("stallmonitor_loop_stalled{loop:main}") != 1 { usleep(1000) }
        say("stalled_meanwhile=\(metrics.value("stallmonitor_loop_stalled{loop:main}") == 1)")
      }
      Loop.main.run()
      monitor.stop()
    case "again":
      // What was counted by one monitor is not counted by the next one.
      for _ in 0..<2 {
        let monitor = try StallMonitor.start(configuration)
        turn(100)
        monitor.stop()
      }
    case "main-queue":
      let monitor = try StallMonitor.start(configuration)
      DispatchQueue.global().async {
        for _ in 0..<1000 where monitor.watchedLoops.first?.kind == nil { usleep(10_000) }
        say("kind_then=\(monitor.watchedLoops.first?.kind?.rawValue ?? "unknown")")
        // The watchdog says it when it looks next.
        usleep(300_000)
        monitor.stop()
        exit(0)
      }
      dispatchMain()
    case "blocked-log":
      // A log whose lock the stalled loop holds.
      configuration.logger = Logger(label: "victim") { _ in LockedLog() }
      let monitor = try StallMonitor.start(configuration)
      let worker = PermanentThread(name: "worker")
      try worker.start()
      after(.milliseconds(150)) {
        LockedLog.lock.withLock { _ in
          // The log must report it now.
          _ = try? monitor.watch(worker.loop!, name: "worker")
          blockTheLoop(milliseconds: 450)
        }
        Loop.main.stop()
      }
      Loop.main.run()
      monitor.stop()
    case "idle":
      let monitor = try StallMonitor.start(configuration)
      let (thread, watchdog) = (Thread.of("stall-telemetry"), Thread.of("stall-watchdog"))
      DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(1)) {
        let (wakeUps, switches) = (Thread.switches(of: watchdog), Thread.switches(of: thread))
        usleep(1_500_000)
        say(
          "wakeups=\(Thread.switches(of: watchdog) - wakeUps) switches=\(Thread.switches(of: thread) - switches)")
        Loop.main.stop()
      }
      after(.milliseconds(10)) {}
      Loop.main.run()
      monitor.stop()
    case "service", "service-stalled", "service-misconfigured":
      if scenario == "service-misconfigured" { configuration.threshold = .zero }
      let group = ServiceGroup(
        configuration: ServiceGroupConfiguration(
          services: [
            .init(service: StallMonitorService(configuration)),
            .init(service: Sibling(isStalled: scenario == "service-stalled")),
          ], gracefulShutdownSignals: [.sigterm], logger: Logger(label: "group") { _ in SwiftLogNoOpLogHandler() }))
      Task.detached {
        do {
          try await group.run()
          say("group=ended")
        } catch {
          say("group=\(error)")
        }
        exit(0)
      }
      dispatchMain()
    default:
      say("unknown scenario")
      exit(2)
    }
    metrics.tell()
  }
}

/// A service beside the monitor.
struct Sibling: Service {
  var isStalled: Bool

  func run() async throws {
    // Until the process ends.
    if isStalled { DispatchQueue.main.async { blockTheLoop(milliseconds: 60_000) } }
    try? await Task.sleep(for: .milliseconds(isStalled ? 1500 : 600))
    say("sibling=\(Task.isCancelled ? "cancelled" : "runs")")
    try? await gracefulShutdown()
  }
}

@inline(never)
func blockTheLoop(milliseconds: UInt32) {
  usleep(milliseconds * 1000)
  say("slept=\(milliseconds)")
}

func turn(_ count: Int) {
  let left = Atomic<Int>(count)
  let timer = Loop.Timer(after: .milliseconds(1), repeats: true) { _ in
    if left.subtract(1, ordering: .relaxed).newValue == 0 { Loop.main.stop() }
  }
  Loop.main.add(timer)
  Loop.main.run()
  timer.invalidate()
}

func after(_ time: Duration, _ body: @escaping @Sendable () -> Void) {
  Loop.main.perform(after: time) { _ in body() }
}

func say(_ text: String) {
  let line = "victim: \(text)\n"
  _ = write(2, line, line.utf8.count)
}

/// A log with a lock, as that of standard streams is one.
struct LockedLog: LogHandler {
  static let lock = Mutex<Int>(0)
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.info
  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { Self.lock.withLock { _ in say("log=\(event.level)") } }
}
