import ArgumentParser
import CLinux
import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import StallReport

/// `stalld run`: the daemon.
struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Runs the agent until SIGTERM or SIGINT.",
    discussion: """
      Examples:
        stalld run
        stalld run --config ./stalld.yaml --output stdout

      Under systemd (Type=notify) the agent sends READY=1 when it accepts connections and STOPPING=1 when it ends. A StallMonitor \
      watches the agent's own main loop. The STALLMONITOR_ variables configure it, and its reports go to the same outputs. With \
      WatchdogSec= in the unit, systemd restarts the agent if that loop is blocked.

      The settings come from the settings file (stalld.yaml(5)). STALLD_ variables override the file, and flags override both. \
      If settings are invalid, the agent lists all errors on standard error and exits. stalld check lists them without starting the agent.

      Exit code: 0 after SIGTERM or SIGINT, 1 if the agent could not start, or ended by itself: its service manager must restart it if \
      a directory of its outputs was replaced, 64 usage error.
      """)

  @OptionGroup var options: AgentOptions

  func validate() throws { try options.refuseUnexpected() }

  func run() throws {
    let settings = try options.loadOrExit(standardOutput: STDOUT_FILENO)
    let unusable = UnusablePaths(of: settings, hasSocket: InheritedSocket.isThere)
    guard unusable.problems.isEmpty else {
      for problem in unusable.problems { AgentLog.say(.error, problem.printable(limit: 4096)) }
      throw ExitCode.failure
    }
    let loop = Loop.main
    let manager = getenv("NOTIFY_SOCKET").flatMap { UnixDatagramSocket(address: String(cString: $0)) }
    var agent: Agent?
    // Before there are other threads: they inherit the blocked signals.
    let stopSignals = try Loop.SignalSource([SIGTERM, SIGINT], name: "stop signals") { _ in loop.stop() }
    let reference = AgentReference()
    let reloadSignal = try Loop.SignalSource([SIGHUP], name: "reload signal") { _ in reference.agent?.reload() }
    do {
      agent = try Agent(settings: settings, options: options, loop: loop, manager: manager)
    } catch {
      AgentLog.say(.error, "\(error)")
      throw ExitCode.failure
    }
    reference.agent = agent
    try loop.add(stopSignals)
    try loop.add(reloadSignal)
    var configuration = StallMonitorConfiguration()
    configuration.notifiesSystemdWatchdog = true
    // Its own stalls go the way of everybody's.
    configuration.sink = .agent(path: settings.socket.path)
    let monitor = try StallMonitor.start(configuration)
    manager?.send("READY=1\nSTATUS=Serving")
    // On a busy machine a report would wait for its turn on the processor several times. The unit's filter allows the call.
    clinux_request_short_slice(true)
    let end = loop.run()
    // Only the two signals stop it.
    if end != .stopped {
      AgentLog.say(.error, "the main loop ended without SIGTERM or SIGINT (\(end)); restart the agent")
    }
    manager?.send("STOPPING=1")
    monitor.stop()
    agent?.stop()
    if end != .stopped || agent?.endsForRestart ?? false { throw ExitCode.failure }
  }
}

/// The agent, for the closures of its loop.
private final class AgentReference: @unchecked Sendable {
  // @unchecked: the main thread's alone.
  var agent: Agent?
}
