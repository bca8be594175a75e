import LoopEngine

/// Brings lines to one output, in order: keeps those that the output does not take now, and tries again.
///
/// Used on the writer's thread alone.
final class Delivery: @unchecked Sendable {
  // @unchecked: closures on the writer's own loop are all that it is handed to.

  /// How much waits at most for an output that nobody has to wait for.
  static let optionalBytes = 4 << 20
  /// So many lines in a row, then the other outputs have their turn.
  private static let burst = 256
  private static let firstRetry = Duration.milliseconds(50)
  private static let longestRetry = Duration.seconds(1)

  let destination: any LineDestination
  /// Whether nothing may be dropped.
  ///
  /// Then the ingest bounds the queue: it reads no further.
  var isRequired: Bool
  private(set) var queue = LineQueue()
  private let loop: Loop
  private let didProgress: @Sendable () -> Void
  private let say: OutputWriter.Say
  private var retryInterval = firstRetry
  private var retry: Loop.Timer?
  private var readiness: Loop.DescriptorSource?
  private var continues = false
  private var isClosed = false
  /// When lines were last taken, since the output has failed.
  private var failingSince: Loop.Instant?
  private var droppedBefore = false
  private var tally: OutputCounters.Output

  init(
    _ destination: any LineDestination, isRequired: Bool, loop: Loop, say: @escaping OutputWriter.Say,
    didProgress: @escaping @Sendable () -> Void
  ) {
    self.destination = destination
    self.isRequired = isRequired
    self.loop = loop
    self.say = say
    self.didProgress = didProgress
    tally = OutputCounters.Output(name: destination.name, isRequired: isRequired)
  }

  var counters: OutputCounters.Output {
    var result = tally
    result.isRequired = isRequired
    result.rotations = destination.rotations
    result.queuedLines = queue.count
    result.queuedBytes = queue.bytes
    result.isFailing = failingSince != nil
    return result
  }

  /// Takes lines, and sends what can be sent.
  func take(_ lines: some Sequence<ReportLine>) {
    for line in lines { queue.append(line) }
    if retry == nil && readiness == nil && !continues { flush() }
    if !isRequired { boundQueue() }
  }

  /// Tries again now, whatever it waits for; after a rename by an operator, on the new file.
  func reopen() {
    stopWaiting()
    destination.reopen()
    retryInterval = Self.firstRetry
    flush()
  }

  /// Sends what goes without waiting, and closes the output.
  ///
  /// What is left stays in the queue.
  func close() {
    stopWaiting()
    flush(all: true)
    stopWaiting()
    isClosed = true
    destination.close()
  }

  // MARK: Sending

  private func flush(all: Bool = false) {
    guard !isClosed else { return }
    var sent = 0
    while let line = queue.first {
      if sent == Self.burst && !all {
        goOnLater()
        return
      }
      switch destination.send(line) {
      case .sent:
        tally.lines += 1
        tally.bytes += UInt64(line.bytes.count)
        retryInterval = Self.firstRetry
      case .refused(let reason):
        tally.errors += 1
        tally.dropped += 1
        say(.error, "\(destination.name): a line of \(line.bytes.count) bytes is left out: \(reason)")
      case .waits(let descriptor):
        wait(for: descriptor)
        return
      case .failed(let reason):
        tally.errors += 1
        fail(reason)
        return
      }
      queue.removeFirst()
      sent += 1
    }
    recover()
  }

  private func goOnLater() {
    continues = true
    loop.perform(name: "output goes on") { [self] in
      continues = false
      if retry == nil && readiness == nil { flush() }
      didProgress()
    }
  }

  private func wait(for descriptor: Int32) {
    let source = Loop.DescriptorSource(descriptor, for: .writable, name: "output takes lines again") { [self] _, _ in
      stopWaiting()
      flush()
      didProgress()
    }
    readiness = source
    do { try loop.add(source) } catch {
      readiness = nil
      retryLater()
    }
  }

  private func fail(_ reason: String) {
    if failingSince == nil {
      failingSince = .now
      let fate = isRequired ? "lines wait, and are tried again" : "lines wait as far as there is room"
      say(.error, "\(destination.name): \(reason); \(fate)")
    }
    retryLater()
  }

  private func retryLater() {
    retry?.invalidate()
    retry = loop.schedule(after: retryInterval, tolerance: retryInterval / 10, name: "output is tried again") {
      [self] _ in
      retry = nil
      flush()
      didProgress()
    }
    retryInterval = min(retryInterval * 2, Self.longestRetry)
  }

  /// The queue is empty.
  private func recover() {
    retryInterval = Self.firstRetry
    guard let since = failingSince else { return }
    failingSince = nil
    droppedBefore = false
    let seconds = since.duration(to: .now).components.seconds
    say(.notice, "\(destination.name): takes lines again, after \(seconds) s; nothing waits any more")
  }

  private func stopWaiting() {
    retry?.invalidate()
    retry = nil
    readiness?.invalidate()
    readiness = nil
  }

  private func boundQueue() {
    while queue.bytes > Self.optionalBytes, queue.dropOldest(sparingFirst: destination.isMidLine) {
      tally.dropped += 1
      if !droppedBefore { say(.warning, "\(destination.name): takes nothing; the oldest lines are dropped") }
      droppedBefore = true
    }
  }
}
