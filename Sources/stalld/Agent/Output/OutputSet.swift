import LoopEngine

/// The outputs that are open, and how far they have come; used on the writer's thread alone.
final class OutputSet: @unchecked Sendable {
  // @unchecked: all but `loop` and the initializer is the writer's thread's.

  private struct Open {
    var settings: AgentSettings.Output
    var delivery: Delivery
  }

  let loop: Loop
  /// Called with the counters whenever they have changed.
  var didChange: (@Sendable (OutputCounters) -> Void)?
  private let maker: DestinationMaker
  private let say: OutputWriter.Say
  private let didWrite: @Sendable (Int) -> Void
  private var open: [Open] = []
  // Lines, counted from the first one ever.
  private var submitted: UInt64 = 0
  private var finished: UInt64 = 0
  private var isClosed = false
  private var doneHandlers: [@Sendable () -> Void] = []

  init(
    loop: Loop, maker: DestinationMaker, say: @escaping OutputWriter.Say, didWrite: @escaping @Sendable (Int) -> Void
  ) {
    self.loop = loop
    self.maker = maker
    self.say = say
    self.didWrite = didWrite
  }

  var counters: OutputCounters { OutputCounters(outputs: open.map(\.delivery.counters)) }

  func take(_ lines: [ReportLine]) {
    guard !isClosed else { return }
    submitted += UInt64(lines.count)
    for output in open { output.delivery.take(lines) }
    settle()
  }

  func reopen() {
    for output in open { output.delivery.reopen() }
    settle()
  }

  /// Opens what is new, keeps what stays, and closes what is gone; or throws, and changes nothing.
  func replace(_ settings: [AgentSettings.Output]) throws(OutputError) {
    guard !isClosed else { return }
    if settings.isEmpty { throw OutputError("outputs", "at least one is needed") }
    var next: [Open] = []
    var opened: [Delivery] = []
    do throws(OutputError) {
      for (position, wanted) in settings.enumerated() {
        if let twin = settings[..<position].firstIndex(where: { $0.isSamePlace(as: wanted) }) {
          throw OutputError("outputs[\(position)]", "goes to the same place as outputs[\(twin)]")
        }
        if let stays = open.first(where: { $0.settings.isSamePlace(as: wanted) }) {
          next.append(Open(settings: wanted, delivery: stays.delivery))
          continue
        }
        let destination = maker.make(wanted)
        let delivery = Delivery(destination, isRequired: true, loop: loop, say: say) { [weak self] in self?.settle() }
        opened.append(delivery)
        try destination.open()
        next.append(Open(settings: wanted, delivery: delivery))
      }
    } catch {
      for delivery in opened { delivery.close() }
      throw error
    }
    let hasFile = settings.contains { $0.isFile }
    for output in next {
      output.delivery.isRequired = output.settings.isFile || !hasFile
      maker.update(output.delivery.destination, to: output.settings)
    }
    let leaving = open.filter { former in !next.contains { $0.delivery === former.delivery } }
    open = next
    retire(leaving.map(\.delivery), handingOverTo: opened)
    settle()
  }

  /// Closes outputs that are no longer wanted; those that come in their place get what a required one could not take.
  private func retire(_ leaving: [Delivery], handingOverTo opened: [Delivery]) {
    for delivery in leaving { delivery.close() }
    // Each queue is the end of the same sequence, so the longest holds the others.
    let unwritten = leaving.filter(\.isRequired).max { $0.queue.count < $1.queue.count }
    guard let unwritten, !unwritten.queue.isEmpty else { return }
    if opened.isEmpty {
      say(
        .error, "\(unwritten.destination.name): closed with \(unwritten.queue.count) lines that it did not take")
    }
    for delivery in opened { delivery.take(unwritten.queue.all) }
  }

  /// Calls back when every required output has taken all lines.
  func whenDone(_ body: @escaping @Sendable () -> Void) {
    doneHandlers.append(body)
    settle()
  }

  func close() {
    for output in open { output.delivery.close() }
    settle()
    isClosed = true
    maker.keeper.stop()
  }

  /// Tells how many lines are done with.
  private func settle() {
    let waiting = open.lazy.filter(\.delivery.isRequired).map(\.delivery.queue.count).max() ?? 0
    let done = submitted - UInt64(waiting)
    didChange?(counters)
    if done > finished {
      let count = Int(done - finished)
      finished = done
      didWrite(count)
    }
    guard done == submitted, !doneHandlers.isEmpty else { return }
    let handlers = doneHandlers
    doneHandlers = []
    for handler in handlers { handler() }
  }
}

extension AgentSettings.Output {
  var isFile: Bool {
    if case .file = self { return true }
    return false
  }

  /// Whether two settings are of one output, which keeps its queue when the rest changes.
  func isSamePlace(as other: AgentSettings.Output) -> Bool {
    switch (self, other) {
    case (.file(let one), .file(let two)): one.path == two.path
    case (.standardOutput, .standardOutput): true
    case (.syslog(let one), .syslog(let two)): one.address == two.address
    default: false
    }
  }
}
