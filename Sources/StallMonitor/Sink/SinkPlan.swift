import DescriptorIO
import PlatformLibc
import StallCapture
import StallReport

/// The sink that a configuration asks for, and how it is made.
///
/// ``start(origin:tunings:recovery:news:)`` is called on the watchdog, whose descriptor table the sink's files are opened in.
struct SinkPlan: Sendable {
  private let configuration: StallMonitorConfiguration
  private let environment: Environment

  init(_ configuration: StallMonitorConfiguration, environment: Environment) {
    self.configuration = configuration
    self.environment = environment
  }

  /// The descriptor of the service's that the sink writes to; nil if it opens what it needs.
  ///
  /// Call it on a thread of the service's.
  /// - Throws: ``StallMonitorError/Code/sinkCannotBeOpened`` if it is closed.
  func keptDescriptor() throws(StallMonitorError) -> Int32? {
    switch configuration.sink.destination {
    case .file, .agent: return nil
    case .standardOutput: break
    }
    guard FileIdentity(STDOUT_FILENO) != nil else { throw cannotBeOpened(errno) }
    return STDOUT_FILENO
  }

  /// The error for a failure of open(2), with what to do about it.
  private func cannotBeOpened(_ code: Int32) -> StallMonitorError {
    var reason = String(cString: strerror(code))
    if case .file(let path) = configuration.sink.destination {
      let directory = PathParts(path).directory
      switch code {
      case ENOENT: reason += "; create the directory \(directory), or choose another file"
      case EISDIR: reason += "; choose a file in it, such as file:\(path)/stalls.jsonl"
      case EACCES: reason += "; let user \(geteuid()) write to \(path), or choose another file"
      default: break
      }
    }
    return StallMonitorError(.sinkCannotBeOpened(sink: "\(configuration.sink)", reason: reason))
  }

  /// Makes the page on which loops note that a stall is over; nil if nobody reads it.
  func makeRecoveryPage(sentinel: ForkSentinel) -> RecoveryPage? {
    switch configuration.sink.destination {
    case .standardOutput, .file: nil
    case .agent: RecoveryPage(sentinel: sentinel)
    }
  }

  /// Opens the sink, and starts the output thread.
  ///
  /// - Throws: ``StallMonitorError`` if the destination cannot be opened, or a thread cannot be
  ///   created.
  func start(
    origin: Report.Origin, tunings: TuningBox, recovery: RecoveryPage?, news: @escaping @Sendable () -> Void
  ) throws(StallMonitorError) -> OutputSink {
    let writer: LineWriter
    switch configuration.sink.destination {
    case .agent(let path):
      let location = spoolLocation(configured: configuration.stateDirectory, environment: environment, origin: origin)
      let sink = OutputSink(namesFrames: true, details: .agent, news: news)
      try sink.start(name: "stall-agent") {
        AgentClient(
          sink: $0, path: path, origin: origin, location: location, box: tunings, configuration: configuration,
          recovery: recovery)
      }
      return sink
    case .standardOutput: writer = LineWriter(.descriptor(1))
    case .file(let path): writer = LineWriter(.file(path: path))
    }
    if let code = writer.open() {
      throw cannotBeOpened(code)
    }
    let details = DetailFiles.make(configured: configuration.stateDirectory, environment: environment)
    if details == nil, configuration.actions.contains(where: { $0.kind == .writeDetailFile }) {
      Diagnostics.say(
        "detail files are disabled: no state directory is writable; set STALLMONITOR_STATE_DIRECTORY")
    }
    let sink = OutputSink(details: details.map { .folder($0.folderPath) } ?? .none, news: news)
    try sink.start(name: "stall-output") { LineClient(sink: $0, writer: writer, details: details) }
    return sink
  }

  /// Where lines for the agent may outlive the process; nil where that is nowhere.
  private func spoolLocation(
    configured: String?, environment: Environment, origin: Report.Origin
  ) -> Spool.Location? {
    let own = configured ?? environment.serviceStateDirectory
    // In memory, where there is no other place: what waits then outlives the process, though not the machine.
    let path = own ?? "/dev/shm"
    do throws(StateDirectory.Failure) {
      let directory = try StateDirectory(path: path)
      try directory.checkWritable()
      let prefix = AbandonedFiles.prefix("stallspool", service: [origin.serviceName, path])
      return Spool.Location(directory: directory, prefix: prefix, isShared: own == nil)
    } catch {
      Diagnostics.say(
        "cannot use the state directory \(path): \(error.reason). Reports that the agent has not accepted are lost when the service ends"
      )
      return nil
    }
  }
}
