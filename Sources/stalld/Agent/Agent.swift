import DescriptorIO
import Glibc
import LoopEngine
import StallMonitor
import StallReport

/// The agent: it receives the reports of services, names their frames, and writes them; all on its loop, but for names, files and details.
///
/// It has many dependencies because it is where the parts are made and joined: each part knows closures, and no other part.
final class Agent {
  private let loop: Loop
  private let options: AgentOptions
  private var settings: AgentSettings
  /// The settings that it began with: some apply until it is restarted.
  private let firstSettings: AgentSettings
  private var ingest: Ingest!
  private var naming: NamingStage!
  private var writer: OutputWriter!
  private var stuckOutputs: StuckOutputs!
  private var details: DetailStore!
  private let metrics = AgentMetrics(version: stalldVersion)
  private var metricsServer: MetricsServer?
  private var textfile: MetricsTextfile?
  private var control: ControlServer!
  private var listener: StreamListener?
  private let manager: UnixDatagramSocket?
  private let began = Loop.Instant.now
  private var recentStalls = RecentStalls()
  private var loaded = Timestamp.now()
  private var hasFile: Bool
  private var reloadFailure: String?
  /// The callers that wait for a reload to end; that of the first one is in progress.
  private var reloads: [(ReloadOutcome) -> Void] = []
  /// The next step of the current reload, when another thread has done its part.
  private var nextStep: ((OutputError?) -> Void)?
  private var rate = LineRate()

  /// Lines that the writer has, in order.
  private var written = PendingLines()

  /// The agent ends so that its service manager starts it again.
  private(set) var endsForRestart = false
  private var isStopping = false

  /// Opens everything.
  ///
  /// - Throws: The first resource that cannot be opened, with a description.
  init(settings: AgentSettings, options: AgentOptions, loop: Loop, manager: UnixDatagramSocket?) throws {
    self.settings = settings
    firstSettings = settings
    self.options = options
    hasFile = options.file.exists
    self.loop = loop
    self.manager = manager
    DescriptorLimit.raise()
    do {
      // First its sockets: an agent that finds another one there must not open that one's files.
      let socket = try openSocket()
      control = try openControl()
      try openOutputs()
      try ingest.listen(at: socket)
      try openMetrics()
      try checkDescriptors()
    } catch {
      metricsServer?.stop()
      control?.stop()
      listener?.end()
      throw error
    }
    metrics.didChange = { [unowned self] in textfile?.noteChange() }
  }

  private func openControl() throws -> ControlServer {
    try ControlServer(
      path: settings.control.path, loop: loop, reload: { [unowned self] in reload(then: $0) },
      status: { [unowned self] in status() })
  }

  private func openOutputs() throws {
    let (agent, say) = (UncheckedReference(self), sayOfOutput)
    details = try DetailStore(settings: settings.details, say: say)
    let writtenLines = WrittenLineCounter(loop: loop) { agent.object?.didWrite($0) }
    writer = try OutputWriter(settings: settings.outputs, say: say) { writtenLines.add($0) }
    stuckOutputs = StuckOutputs(loop: loop, say: say, counters: { [unowned self] in writer.counters() })
    naming = NamingStage(loop: loop, settings: settings.symbolication) { agent.object?.write($0) }
    ingest = Ingest(
      loop: loop, policy: settings.policy, metrics: metrics,
      destination: Ingest.Destination(
        submit: { [unowned self] in naming.submit($0) },
        storeDetail: { [unowned self] id, peer, bytes in
          details.write(id: id, of: peer.uid, in: .init(user: peer.owner, unit: peer.place), bytes)
        },
        settings: { [unowned self] in self.settings.overrides(unit: $0, service: $1)?.json ?? "{}" },
        didConnect: { [unowned self] in naming.prepare() }, didTake: { [unowned self] in didTake($0) },
        keepUsage: { [unowned self] in details.keepUsage($0) }))
    ingest.usage = DailyUsage(text: details.keptUsage)
    recallWrittenReports()
  }

  /// Logs it if there are fewer descriptors than `limits.connections` needs.
  ///
  /// - Throws: If there are none for a single connection.
  private func checkDescriptors() throws(DescriptorLimit.Failure) {
    let restriction = try ingest.descriptors.restriction(
      of: settings.limits.connections, open: ingest.connections.count)
    if let restriction { AgentLog.say(.warning, restriction) }
  }

  // MARK: The way of a line

  private func didTake(_ line: ReportLine) {
    metrics.record(line)
    rate.count(1)
  }

  private func write(_ lines: [PendingLine]) {
    var lines = lines
    ingest.account(&lines)
    written.append(lines)
    let reports = lines.compactMap(\.line)
    // With the names that the outputs get.
    reports.forEach { recentStalls.record($0) }
    if !reports.isEmpty {
      writer.submit(reports)
      stuckOutputs.linesWait()
    }
    finish(0)
  }

  private func didWrite(_ count: Int) { finish(count) }

  /// As many lines more are done with, and what only kept its place before the next one.
  private func finish(_ count: Int) {
    let finished = written.take(lines: count)
    if written.count == 0 { stuckOutputs.linesAreWritten() }
    guard !finished.isEmpty else { return }
    control?.publish(finished.compactMap(\.line))
    ingest.didFinish(finished)
  }

  /// What an earlier run wrote last, and could not acknowledge any more, is not written again.
  private func recallWrittenReports() {
    let (everywhere, elsewhereLacking) = WrittenReports.recall(files: settings.outputs.compactMap(\.path))
    for identity in everywhere { ingest.remember(identity) }
    writer.remember(elsewhereLacking)
  }

  // MARK: Begin and end

  /// The socket for services, which systemd passes or the agent makes.
  private func openSocket() throws -> Int32 {
    if let inherited = InheritedSocket.take() { return inherited }
    let listener = try StreamListener(
      path: settings.socket.path, mode: mode_t(settings.socket.mode), backlog: 4096)
    self.listener = listener
    if let group = settings.socket.group, chown(settings.socket.path, uid_t.max, group.id) != 0 {
      throw StreamListener.Failure(
        place: settings.socket.path,
        reason: "cannot set its group to \(group.name) (socket.group): \(String(cString: strerror(errno)))")
    }
    return listener.descriptor
  }

  private func openMetrics() throws {
    if let address = settings.metrics.listen {
      metricsServer = try MetricsServer(
        address: address, loop: loop, metrics: { [unowned self] in metrics.text(sample()) },
        problems: { [unowned self] in problems() })
    }
    if let path = settings.metrics.textfile {
      let (directory, say) = (OutputDirectory(PathParts(path).directory), sayOfOutput)
      textfile = try MetricsTextfile(
        path: path, interval: settings.metrics.textfileInterval, loop: loop,
        text: { [unowned self] in metrics.text(sample(), for: .textfile) },
        isSettled: { [unowned self] in
          ingest.queuedBytes == 0 && writer.counters().outputs.allSatisfy(\.isSettled)
        },
        didFail: { reason in
          say(directory?.isOutOfReach ?? false ? .critical : .error, "the metrics file \(reason)")
        })
    }
  }

  /// Logs what the outputs say, on any thread.
  ///
  /// If one needs a new process, and a service manager is there to start it, the agent ends. Services keep what is not acknowledged.
  private var sayOfOutput: OutputWriter.Say {
    let (agent, loop, isSupervised) = (UncheckedReference(self), loop, manager != nil)
    return { priority, text in
      guard priority == .critical else { return AgentLog.sayOfOutput(priority, text) }
      let remedy = isSupervised ? "the agent ends, and its service manager starts it again" : "restart the agent"
      AgentLog.sayOfOutput(priority, "\(text); \(remedy)")
      if isSupervised { loop.perform(name: "the agent ends") { agent.object?.endForRestart() } }
    }
  }

  private func endForRestart() {
    // It ends already, because that was asked for.
    guard !isStopping else { return }
    endsForRestart = true
    // A reload is answered first.
    if reloads.isEmpty { loop.stop() }
  }

  /// Reads received lines, writes them, acknowledges them, and closes the connections.
  func stop() {
    isStopping = true
    ingest.drain()
    naming.stop()
    writer.stop(within: endsForRestart ? .zero : .seconds(5))
    // Lines that have arrived are acknowledged before the connections close.
    loop.run(mode: .default, before: .now.advanced(by: .milliseconds(20)))
    ingest.close()
    details.stop(within: .seconds(1))
    textfile?.stop(within: .seconds(1))
    metricsServer?.stop()
    control.stop()
    listener?.end()
  }

  // MARK: Reload

  /// SIGHUP, or `stalld reload`: all of the new settings, or none.
  ///
  /// `didEnd` is called on the loop. A reload begins when the one before has ended.
  func reload(then didEnd: @escaping (ReloadOutcome) -> Void = { _ in }) {
    reloads.append(didEnd)
    if reloads.count == 1 { beginReload() }
  }

  private func beginReload() {
    manager?.send("RELOADING=1\nMONOTONIC_USEC=\(Loop.Instant.now.nanoseconds / 1000)")
    writer.reopen()
    let new: AgentSettings
    do {
      new = try options.load(standardOutput: STDOUT_FILENO, running: firstSettings)
    } catch {
      return refuse(error.description)
    }
    let (agent, loop) = (UncheckedReference(self), loop)
    nextStep = { [unowned self] failure in
      if let failure { return refuse("\(failure)") }
      nextStep = { [unowned self] failure in
        if let failure { refuse("\(failure)") } else { apply(new) }
      }
      writer.replace(new.outputs) { failure in
        loop.perform(name: "outputs have been replaced") { agent.object?.takeStep(failure) }
      }
    }
    // First what changes nothing.
    details.test(new.details) { failure in
      // The next process can use it.
      loop.perform(name: "the directory has been tested") {
        agent.object.map { $0.takeStep($0.endsForRestart ? nil : failure) }
      }
    }
  }

  private func takeStep(_ failure: OutputError?) {
    let step = nextStep
    nextStep = nil
    step?(failure)
  }

  private func refuse(_ reason: String) {
    reloadFailure = reason
    metrics.reloadFailed()
    for line in reason.split(separator: "\n") { AgentLog.say(.error, .reloadFailed, "not reloaded: \(line)") }
    manager?.send("READY=1\nSTATUS=Serving; the last reload failed")
    endReload(.refused(reason))
  }

  private func apply(_ new: AgentSettings) {
    let old = settings
    settings = new
    reloadFailure = nil
    loaded = .now()
    hasFile = options.file.exists
    ingest.update(new.policy)
    if new.limits.connections != old.limits.connections { try? checkDescriptors() }
    if new.services != old.services { ingest.sendSettingsToAll() }
    if new.details != old.details {
      details.replace(new.details) { failure in
        if let failure { AgentLog.say(.error, .outputFailed, "not changed: \(failure)") }
      }
    }
    let restart = new.changesThatNeedRestart(from: old)
    let late = restart.isEmpty ? "" : "; restart the agent to apply \(restart.joined(separator: ", "))"
    AgentLog.say(.info, "reloaded\(late)")
    manager?.send("READY=1\nSTATUS=Serving")
    endReload(.done(needsRestart: restart))
  }

  private func endReload(_ outcome: ReloadOutcome) {
    reloads.removeFirst()(outcome)
    if !reloads.isEmpty { return beginReload() }
    guard endsForRestart else { return }
    // For systemd, a reload has failed if the agent ends before the command that asked for it.
    let loop = loop
    loop.perform(after: .seconds(1), name: "the agent ends") { _ in loop.stop() }
  }

  // MARK: Status

  private func problems() -> [String] {
    var problems = writer.counters().outputs.filter {
      ($0.isFailing || $0.isUnsynchronised) && $0.isRequired || $0.isStuck
    }
    .map(\.problem)
    if ingest.isOutOfRoom { problems.append("the memory limit is reached") }
    if let reason = details.failure { problems.append(reason) }
    if let shortage = ingest.currentShortage() { problems.append("services cannot connect: \(shortage)") }
    return problems
  }

  private func sample() -> MetricsSample {
    var sample = MetricsSample()
    sample.connections = ingest.connections.count
    sample.openStalls = ingest.openStalls
    sample.queuedBytes = ingest.queuedBytes
    sample.queuedBytesLimit = settings.limits.memory
    sample.outputs = writer.counters().outputs.map {
      MetricsSample.Output(
        name: $0.name, lines: $0.lines, bytes: $0.bytes, writeErrors: $0.errors, droppedLines: $0.dropped,
        rotations: $0.rotations, queuedLines: $0.queuedLines, stuckSeconds: $0.isStuck ? $0.waiting / .seconds(1) : 0)
    }
    let symbols = naming.counters
    sample.symbols = MetricsSample.SymbolCache(
      hits: symbols.hits, misses: symbols.misses, bytes: symbols.bytes, unnamedLines: symbols.unnamedLines,
      restarts: symbols.restarts)
    sample.details = details.counters()
    sample.loop = loop.statistics
    return sample
  }

  private func status() -> AgentStatus {
    var status = AgentStatus(
      version: stalldVersion, pid: getpid(), uptimeSeconds: began.duration(to: .now) / .seconds(1))
    status.problems = problems()
    status.configuration = AgentStatus.Configuration(
      file: options.file.path, exists: hasFile, loaded: loaded.text, error: reloadFailure)
    status.outputs = writer.counters().outputs.map { output in
      let parts = output.name.split(separator: " ", maxSplits: 1)
      return AgentStatus.Output(
        type: String(parts[0]), target: parts.count > 1 ? String(parts[1]) : nil,
        state: output.state, lines: output.lines, bytes: output.bytes,
        errors: output.errors, dropped: output.dropped, queued: output.queuedLines)
    }
    status.connections = ingest.connections.count
    status.clients = ingest.connections.values.sorted { $0.received > $1.received }.prefix(200).map { connection in
      let peer = connection.process.peer
      return AgentStatus.Client(
        service: connection.service ?? "", unit: peer.unit, pid: peer.pid, uid: peer.uid,
        connected: connection.since.text, lines: connection.received,
        linesPerSecond: connection.lineRate.perSecond, openStalls: connection.process.openStalls.count)
    }
    status.linesIngested = metrics.ingestedLines
    status.linesPerSecond = rate.perSecond
    status.linesRefused = metrics.refusedLines.values.reduce(0, +)
    status.linesDuplicate = metrics.duplicateLines
    status.stalls = recentStalls.stalls
    status.queue = AgentStatus.Queue(
      lines: written.count + naming.backlog, bytes: ingest.queuedBytes, bytesLimit: settings.limits.memory)
    let symbols = naming.counters
    status.symbols = AgentStatus.Symbols(
      hits: symbols.hits, misses: symbols.misses, bytes: symbols.bytes, bytesLimit: naming.settings.cache)
    status.residentBytes = ProcessFigures.residentBytes
    return status
  }
}
