import LoopEngine

/// Brings lines from a queue to an output, in order, and tries again what the output does not take now.
///
/// Used on the output's thread alone. The retry timer and the readiness source are stored together because only one of them may wait at
/// a time: the last send decides which.
final class Delivery: @unchecked Sendable {
  // @unchecked: closures on the output's own loop are all that it is handed to.

  /// So many batches in a row, then what else the thread has to do has its turn.
  private static let burst = 16
  private static let firstRetry = Duration.milliseconds(50)
  private static let longestRetry = Duration.seconds(1)
  /// How long what is written stays unsynchronised at most, if it is to be synchronised at intervals.
  private static let syncInterval = Duration.seconds(1)

  let destination: any LineDestination
  /// What an earlier run has written here and not everywhere: it is not written again.
  var known = KnownReports()
  private let queue: OutputQueue
  private let loop: Loop
  private let didProgress: @Sendable () -> Void
  private let say: OutputWriter.Say
  private var retryInterval = firstRetry
  private var retry: Loop.Timer?
  private var sync: Loop.Timer?
  private var readiness: Loop.DescriptorSource?
  private var continues = false
  private var isClosed = false

  init(
    _ destination: any LineDestination, queue: OutputQueue, loop: Loop, say: @escaping OutputWriter.Say,
    didProgress: @escaping @Sendable () -> Void
  ) {
    self.destination = destination
    self.queue = queue
    self.loop = loop
    self.say = say
    self.didProgress = didProgress
  }

  /// Sends what can be sent, unless the output has to be waited for.
  func linesCame() { if retry == nil && readiness == nil && !continues { flush() } }

  /// Tries again now, without further waiting; after a rename by an operator, on the new file.
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
    sync?.invalidate()
    destination.close()
  }

  // MARK: Sending

  private func flush(all: Bool = false) {
    guard !isClosed else { return }
    var batches = 0
    while true {
      if batches == Self.burst && !all { return goOnLater() }
      batches += 1
      let batch = queue.begin()
      if batch.isEmpty { return recover() }
      switch send(batch) {
      case .sent: break
      case .refused(let reason, let bytes):
        queue.drop()
        didProgress()
        say(.error, "\(destination.name): dropped a line of \(bytes) bytes: \(reason)")
      case .waits(let descriptor): return wait(for: descriptor)
      case .failed(let reason, let needsRestart): return fail(reason, needsRestart: needsRestart)
      }
    }
  }

  private func send(_ batch: ArraySlice<ReportLine>) -> SendResult {
    var lines = batch
    if !known.isEmpty {
      if known.remove(batch.first?.identity) {
        queue.finish(1, written: false)
        didProgress()
        return .sent
      }
      lines = batch.prefix { !known.contains($0.identity) }
    }
    let (count, result) = destination.send(lines)
    queue.note(rotations: destination.rotations)
    queue.finish(count)
    if count > 0 {
      retryInterval = Self.firstRetry
      if destination.needsSync && sync == nil { syncLater() }
      didProgress()
    }
    return result
  }

  private func syncLater() {
    sync = loop.perform(after: Self.syncInterval, name: "output is synchronised") { [self] _ in
      sync = nil
      let (problem, recovered) = queue.synchronise(destination.sync)
      if let problem {
        say(.error, "\(destination.name): cannot synchronise: \(problem); a power cut may take lines; retrying")
      }
      if let recovered {
        say(
          .notice,
          "\(destination.name): synchronises again after \(recovered.components.seconds) s; a power cut may still take lines of that time"
        )
      }
      if destination.needsSync { syncLater() }
    }
  }

  private func goOnLater() {
    continues = true
    loop.perform(name: "output continues") { [self] in
      continues = false
      linesCame()
    }
  }

  private func wait(for descriptor: Int32) {
    let source = Loop.DescriptorSource(descriptor, for: .writable, name: "output accepts lines again") { [self] _, _ in
      stopWaiting()
      flush()
    }
    readiness = source
    do { try loop.add(source) } catch {
      readiness = nil
      retryLater()
    }
  }

  private func fail(_ reason: String, needsRestart: Bool) {
    if queue.fail(reason) {
      let fate = queue.isRequired ? "lines are kept" : "lines are kept up to the memory limit"
      if needsRestart {
        say(.critical, "\(destination.name): \(reason); \(fate)")
      } else {
        say(.error, "\(destination.name): \(reason); \(fate); retrying")
      }
    }
    retryLater()
  }

  private func retryLater() {
    retry?.invalidate()
    retry = loop.perform(after: retryInterval, tolerance: retryInterval / 10, name: "output is tried again") {
      [self] _ in
      retry = nil
      flush()
    }
    retryInterval = min(retryInterval * 2, Self.longestRetry)
  }

  /// The queue is empty.
  private func recover() {
    retryInterval = Self.firstRetry
    guard let time = queue.recover() else { return }
    say(
      .notice, "\(destination.name): accepts writes again after \(time.components.seconds) s; the queue is empty")
  }

  private func stopWaiting() {
    retry?.invalidate()
    retry = nil
    readiness?.invalidate()
    readiness = nil
  }
}
