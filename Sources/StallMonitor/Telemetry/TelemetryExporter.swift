import CLinux
import PlatformLibc
import StallCapture
import StallReport
import Synchronization

/// Hands the monitor's own messages and numbers to the service's log and metrics, on a thread that
/// may wait for them.
///
/// Unlike ``Courier``, which runs jobs one by one, it adds up the counts that come while the thread
/// is busy.
///
/// A log handler takes locks that a stalled loop may hold, so the watchdog calls none: it enqueues
/// the data here, and continues. The thread sleeps while there is nothing to do, so an idle service
/// never wakes it.
final class TelemetryExporter: NoteCarrier {
  private static let noteLimit = 256
  private static let turnInterval: UInt64 = 1_000_000_000
  private static let longestFarewell: UInt64 = 1_000_000_000

  private struct Load {
    var notes: [StateNote] = []
    var lostNotes = 0
    var tally = StallTally()
    var hasTally = false
    var countsTurns = false
    var isLast = false
    var hasThread = false
  }

  private let telemetry: Telemetry
  private let processID = getpid()
  private let load = Mutex(Load())
  private let semaphore = WakeSemaphore()
  private let hasEnded = WakeSemaphore()
  // When turns are next counted; the watchdog's.
  private let nextTurns = Atomic<UInt64>(0)

  /// Nil if nothing was handed in.
  init?(_ telemetry: Telemetry) {
    guard telemetry != Telemetry() else { return nil }
    self.telemetry = telemetry
  }

  /// False in the child of a fork, which has no thread for it.
  var isInOwnProcess: Bool { processID == getpid() }

  // MARK: Adding work

  /// Takes a note; false if there is no log for it.
  func carry(_ note: StateNote) -> Bool {
    guard telemetry.log != nil else { return false }
    change { load in
      if load.notes.count < Self.noteLimit { load.notes.append(note) } else { load.lostNotes += 1 }
    }
    return true
  }

  /// Counts a stall that has ended.
  func count(_ report: Report, isReported: Bool) {
    guard telemetry.meters != nil else { return }
    change { load in
      load.tally.add(report, isReported: isReported)
      load.hasTally = true
    }
  }

  /// Notes what is new of the loops.
  ///
  /// Call it on the watchdog whenever that is awake for another reason.
  func observe(_ loops: [any ObservedLoop], now: UInt64) {
    if telemetry.log != nil { for loop in loops { logKind(of: loop) } }
    guard telemetry.meters != nil else { return }
    let isDue = now >= nextTurns.load(ordering: .relaxed)
    let states = Dictionary(loops.map { ($0.name, $0.isStalled) }) { $0 || $1 }
    let hasChanged = load.withLock { $0.tally.loops != states }
    guard isDue || hasChanged else { return }
    if isDue { nextTurns.store(now + Self.turnInterval, ordering: .relaxed) }
    change { load in
      load.countsTurns = load.countsTurns || isDue
      load.tally.loops = states
      load.hasTally = load.hasTally || hasChanged
    }
  }

  private func logKind(of loop: any ObservedLoop) {
    guard let kind = loop.knownKind, loop.loggedKinds.insert(kind).inserted else { return }
    if kind.hasChangingThreads { return }
    _ = carry(
      StateNote(
        level: .info, text: "Watching loop \(loop.name): \(kind.rawValue)",
        metadata: [
          ("loop.name", loop.name), ("loop.kind", kind.rawValue), ("thread.id", loop.threadID.map { "\($0)" } ?? "any"),
          ("threshold", "\(loop.thresholdDuration)"),
        ]))
  }

  private func change(_ body: (inout Load) -> Void) {
    let hasThread = load.withLock { load in
      body(&load)
      return load.hasThread
    }
    if hasThread { semaphore.post() }
  }

  // MARK: The thread

  /// Starts the thread; `loops` are those that are watched.
  func start(_ loops: @escaping @Sendable () -> [CountedLoop]) throws(OwnThreads.Failure) {
    let thread = try OwnThreads.start(name: "stall-telemetry", forService: true) { [self] in
      var turns: [ObjectIdentifier: Turns] = [:]
      repeat {
        semaphore.wait()
        AvailableMemory.wait()
      } while handOver(loops(), &turns)
      hasEnded.post()
    }
    clinux_thread_detach(thread)
    change { $0.hasThread = true }
  }

  /// Hands over what there is, and takes no more.
  ///
  /// Waits a second at most, for a log or metrics that do not take it.
  func end() {
    let hasThread = load.withLock { load in
      load.isLast = true
      load.countsTurns = true
      return load.hasThread
    }
    if hasThread {
      semaphore.post()
      _ = hasEnded.wait(until: MonotonicClock.now() + Self.longestFarewell)
    } else {
      var turns: [ObjectIdentifier: Turns] = [:]
      _ = handOver([], &turns)
    }
    Diagnostics.takeBack(from: self)
  }

  /// What has been counted of a loop's turns.
  private struct Turns {
    var name: String
    var meter: TurnMeter
    var last: TurnHistogram
  }

  /// Hands over what there is; false if it was the last.
  private func handOver(_ loops: [CountedLoop], _ turns: inout [ObjectIdentifier: Turns]) -> Bool {
    let load = load.withLock { load in
      defer {
        (load.notes, load.lostNotes, load.tally.counts) = ([], 0, [:])
        (load.hasTally, load.countsTurns) = (false, false)
      }
      return load
    }
    OwnThreads.runForService { deliver(load, &turns, of: loops) }
    return !load.isLast
  }

  /// Calls the service's log and metrics.
  private func deliver(_ load: Load, _ turns: inout [ObjectIdentifier: Turns], of loops: [CountedLoop]) {
    for note in load.notes { telemetry.log?.write(note) }
    if load.lostNotes > 0 {
      telemetry.log?.write(
        StateNote(level: .warning, text: "\(load.lostNotes) log messages were dropped: the log handler is too slow"))
    }
    if load.hasTally { telemetry.meters?.add(load.tally) }
    if load.countsTurns, let meters = telemetry.meters { count(&turns, of: loops, for: meters) }
  }

  private func count(
    _ turns: inout [ObjectIdentifier: Turns], of loops: [CountedLoop], for meters: any StallMeters
  ) {
    for loop in loops where turns[loop.id] == nil {
      turns[loop.id] = loop.meter().map { Turns(name: loop.name, meter: $0, last: $0.earlier) }
    }
    for (key, var counted) in turns {
      if let change = counted.meter.histogram.change(since: &counted.last) { meters.add(change, of: counted.name) }
      // One that is not watched any more has been counted to its end.
      turns[key] = loops.contains { $0.id == key } ? counted : nil
    }
  }
}
