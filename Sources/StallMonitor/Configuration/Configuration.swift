/// The settings of a monitor: thresholds, the sink of reports, and actions.
///
/// Most properties have an environment variable of the same name, which overrides the value in code:
/// an operator can configure a service without building it again. ``repeatWindow`` has
/// `STALLMONITOR_REPEAT_WINDOW`. Closures, the log and the metrics are set in code only. Values are
/// checked by ``StallMonitor/start(_:)``.
public struct StallMonitorConfiguration: Sendable, Equatable {
  /// The destination of report lines.
  public struct Sink: Sendable, Hashable {
    enum Destination: Sendable, Hashable {
      case standardOutput
      case file(path: String)
      case agent(path: String)
    }

    let destination: Destination

    /// The process's standard output: one line per report.
    public static let standardOutput = Sink(destination: .standardOutput)

    /// A file that lines are appended to.
    ///
    /// It is created if it is missing (its directory is not), and reopened when it has been renamed
    /// or removed, so that rotation by rename needs no signal.
    public static func file(path: String) -> Sink { Sink(destination: .file(path: path)) }

    /// The agent, `stalld run`, by the path of its socket: absolute, and at most 107 bytes.
    ///
    /// It need not exist yet. Lines wait for it, in memory and then in a file of the state
    /// directory, at most 4 MiB; without a state directory in `/dev/shm`, at most 1 MiB. The monitor connects again after 0.1 s, 0.2 s, 0.4 s … up to 30 s,
    /// and with each new line. Lines that wait when the process ends are sent at the next start of
    /// the service. The agent looks up function names and keeps the samples of stalls. It can
    /// send another ``threshold``, ``repeatWindow``, ``maximumReportsPerMinute``,
    /// ``resampleInterval`` and ``otherThreads``, which override those here and in the
    /// environment. It can disable and enable the watch, and the sampling of running threads. One
    /// thread communicates with it, and sleeps while there is nothing to send.
    public static func agent(path: String) -> Sink { Sink(destination: .agent(path: path)) }
  }

  /// Whether anything is watched at all.
  ///
  /// `STALLMONITOR_ENABLED`: `true` or `false`; the default is true.
  public var isEnabled = true

  /// How long a turn may take before it is a stall.
  ///
  /// `STALLMONITOR_THRESHOLD`: a number and a unit (`us`, `ms`, `s`, `min` or `h`, such as `250ms` or `1.5s`), from 1 ms to 1 h;
  /// the default is 250 ms.
  public var threshold: Duration = .milliseconds(250)

  /// How long repetitions of a reported stall are counted instead of reported.
  ///
  /// At the end of the window, one `stall.suppressed` reports their number and total time. The window doubles while
  /// repetitions continue, up to 1 h. A repetition that lasts more than 1 s, and more than twice as long as any reported one, is reported.
  /// `STALLMONITOR_REPEAT_WINDOW`: a number and a unit, up to 1 h; the default is 30 s. Zero reports every stall.
  public var repeatWindow: Duration = .seconds(30)

  /// The number of stalls that are reported in full per minute; the others are counted, and
  /// reported by one `stall.suppressed`.
  ///
  /// `STALLMONITOR_MAXIMUM_REPORTS_PER_MINUTE`: a whole number up to 10000; the default is 60. Zero is no limit.
  public var maximumReportsPerMinute = 60

  /// The time from the first sample of a stall to the second.
  ///
  /// The interval doubles with each sample, up to a quarter of the stall's age and a second (or to
  /// this, if it is longer), and up to a minute after 40 samples. A shorter time shows better where a
  /// short stall spends its time; each sample of a running thread costs it some 10 us. The first
  /// sample of a stall on CPU is followed by up to four more at once, unless this is above a second.
  /// `STALLMONITOR_RESAMPLE_INTERVAL`: a number and a unit, from 10 ms to 1 min; the default
  /// is 100 ms.
  public var resampleInterval: Duration = .milliseconds(100)

  /// Where report lines go.
  ///
  /// `STALLMONITOR_SINK`: `stdout`, `file:PATH` or `agent:PATH`; the default is standard output.
  public var sink: Sink = .standardOutput

  /// A selection of threads that are captured in addition to the loop's own.
  public struct ThreadSelection: Sendable, Hashable, CustomStringConvertible {
    package enum Value: String, Sendable, CaseIterable {
      case none
      case lockHolder = "lock-holder"
      case running
      case all
    }

    let value: Value

    /// No other thread.
    public static let none = ThreadSelection(value: .none)
    /// The threads that the loop's thread waits for: the holder of a lock, the thread that this one
    /// waits for, and so on.
    public static let lockHolder = ThreadSelection(value: .lockHolder)
    /// The threads of ``lockHolder``, and all running threads.
    public static let running = ThreadSelection(value: .running)
    /// All threads of the process.
    public static let all = ThreadSelection(value: .all)

    /// The selection as the environment variable spells it.
    public var description: String { value.rawValue }
  }

  /// Which threads beside the loop's own are captured in a stall, and included in the report.
  ///
  /// `STALLMONITOR_OTHER_THREADS`: `none`, `lock-holder`, `running` or `all`; the default is
  /// `lock-holder`. The threads of ``ThreadSelection/lockHolder`` are captured with each sample of the
  /// stall. The others are captured one after the other, for at most 200 ms, with the first, second,
  /// fourth, eighth … sample. The stack of a blocked thread is read without touching the thread. A
  /// running thread is sampled by a perf event. Where perf events are not permitted, the thread of a
  /// watched loop gets one signal, and other running threads have no stack.
  public var otherThreads: ThreadSelection = .lockHolder

  /// Whether the task pool is watched: the threads that run the tasks of Swift concurrency.
  ///
  /// A task that blocks or runs on CPU for longer than the threshold without a suspension is a stall of its thread: no other task can use
  /// it meanwhile. A job costs about 40 ns more. An idle pool costs nothing while the monitor's hook sees all jobs. The beginning and the
  /// end of each job are known by the runtime's
  /// `swift_task_enqueueGlobal_hook`. If the process has set it before the start, blocked tasks are reported after one to
  /// two thresholds, and tasks that run on CPU only where perf events are permitted.
  /// `STALLMONITOR_WATCHES_TASK_POOL`: `true` or `false`; the default is true.
  public var watchesTaskPool = true

  /// How long a task of the priorities `utility` and `background` may hold its thread.
  ///
  /// For these tasks, the limit is the longer one of this value and ``threshold``. For other tasks, it
  /// is ``threshold``.
  /// `STALLMONITOR_BACKGROUND_TASK_THRESHOLD`: a number and a unit, from 1 ms to 1 h; the default is 1 s.
  public var backgroundTaskThreshold: Duration = .seconds(1)

  /// The service's name in each report.
  ///
  /// `STALLMONITOR_SERVICE_NAME`; then OpenTelemetry's `OTEL_SERVICE_NAME` and the `service.name` of
  /// `OTEL_RESOURCE_ATTRIBUTES`; the default is the executable's file name.
  public var serviceName: String?

  /// The service's version in each report, if it has one.
  ///
  /// `STALLMONITOR_SERVICE_VERSION`; then the `service.version` of `OTEL_RESOURCE_ATTRIBUTES`.
  public var serviceVersion: String?

  /// The directory for files that remain after the process has ended.
  ///
  /// It has the detail files (`stalls/`), lines that wait for the agent, and the record of a fatal
  /// stall, which the next start of the service reports.
  ///
  /// `STALLMONITOR_STATE_DIRECTORY`: an absolute path; the default is systemd's `STATE_DIRECTORY`. Without one, the monitor
  /// writes no detail files. The record of a stall in progress is never written to a disk, for which a loop
  /// could have to wait: it is stored in the state directory only if that is on tmpfs. Otherwise it
  /// is stored in `/dev/shm`.
  public var stateDirectory: String?

  /// The actions that the monitor runs during a long stall, in addition to its reports.
  ///
  /// Two actions have variables, which replace the same action in code: `STALLMONITOR_ABORT_AFTER`
  /// and `STALLMONITOR_WRITE_DETAIL_FILE_AFTER`, a number and a unit, or `off`. The default is
  /// nothing.
  public var actions: [StallAction] = []

  /// Whether systemd's watchdog (`WatchdogSec=`) is notified while the service is healthy.
  ///
  /// `STALLMONITOR_NOTIFIES_SYSTEMD_WATCHDOG`: `true` or `false`; the default is false. The monitor sends `WATCHDOG=1` every
  /// half of `WATCHDOG_USEC`, and wakes an idle service for that. It sends nothing while a watched loop is blocked for
  /// its threshold, or the whole task pool (`cooperative-pool`). A single task (`task-pool`) does not count. A loop that
  /// waits, has not turned yet, or is paused is healthy. Without `WatchdogSec=` nothing is sent.
  /// ``StallMonitor/stop()`` sends a last `WATCHDOG=1` if all loops are healthy. After that nothing is sent: end the
  /// process within `WatchdogSec=`. If the monitor cannot watch, or is disabled, systemd is asked once not to expect
  /// anything.
  public var notifiesSystemdWatchdog = false

  /// The service's log and metrics.
  var telemetry = Telemetry()

  /// Earlier names of keys that were not read, because the key that replaced each was set, too: for the log.
  var replacedKeys: [String: String] = [:]

  /// The default configuration.
  public init() {}

  /// The first abort that comes before a stall is one.
  var earlyAbort: StallAction? { actions.first { $0.kind == .abort && $0.after < threshold } }
}
