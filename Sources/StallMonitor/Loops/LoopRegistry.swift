import CLinux
import PlatformLibc
import StallCapture
import StallDetection
import StallReport
import Synchronization
import TurnSource

/// The loops that one monitor watches: their names, and what they share.
final class LoopRegistry: Sendable {
  /// Which loop it is, so that none is watched twice.
  enum Identity: Hashable, Sendable {
    case loop(ObjectIdentifier)
    /// A `CFRunLoop`, by its address.
    case coreFoundation(UInt)
  }

  let watchdog: Watchdog
  private let recordsFactory: LoopRecordsFactory
  private let suspension: Suspension
  private let configuration: StallMonitorConfiguration

  private struct Entry {
    var identities: [Identity]
    /// Nil for the main loop, which the monitor itself began to watch.
    var loop: RegisteredLoop?
  }

  // Nil when the monitor has stopped.
  private let entries = Mutex<[String: Entry]?>([:])

  init(
    watchdog: Watchdog, recordsFactory: LoopRecordsFactory, suspension: Suspension,
    configuration: StallMonitorConfiguration
  ) {
    self.watchdog = watchdog
    self.recordsFactory = recordsFactory
    self.suspension = suspension
    self.configuration = configuration
  }

  /// Whether this is the process that is watched, and not the child of a fork.
  var isInOwnProcess: Bool { recordsFactory.sentinel.isInOwnProcess }

  /// A pulse for one more loop, and what outlives the process of its stalls.
  func makePublication() -> LoopPublication {
    let records = recordsFactory.make()
    let marks = records.marks(sentinel: recordsFactory.sentinel)
    return LoopPublication(pulse: watchdog.pulses.makePulse(marks: marks), records: records)
  }

  /// Whether the service reads how many turns its loops make.
  var countsTurns: Bool { configuration.telemetry.meters != nil }

  /// Keeps the name of the main thread's loop from others, whichever that comes to be.
  func takeMainName() { entries.withLock { $0?["main"] = Entry(identities: []) } }

  /// Adds a loop that the main thread has turned out to have.
  func addMain(_ identity: Identity) {
    entries.withLock { $0?["main", default: Entry(identities: [])].identities.append(identity) }
  }

  /// Takes a loop whose watch is to begin on the loop's thread; nil if the monitor has stopped meanwhile.
  func register(
    name: String, threshold: Duration?, identity: Identity? = nil
  ) throws(StallMonitorError) -> RegisteredLoop? {
    let loop = RegisteredLoop(
      name: name, threshold: threshold ?? configuration.threshold, hasOwnThreshold: threshold != nil,
      publication: makePublication(), registry: self)
    return try entries.withLock { entries throws(StallMonitorError) in
      guard let known = entries else { return nil }
      if let identity, let twin = known.first(where: { $0.value.identities.contains(identity) }) {
        throw StallMonitorError(.loopAlreadyWatched(name: twin.key))
      }
      if known[name] != nil { throw StallMonitorError(.nameTaken(name)) }
      entries?[name] = Entry(identities: identity.map { [$0] } ?? [], loop: loop)
      return loop
    }
  }

  /// What the watchdog has to know of a loop.
  func subject(
    of loop: RegisteredLoop, _ traits: RegisteredLoop.Traits, thread: WatchedLoop.Subject.Thread
  ) -> WatchedLoop.Subject {
    let meter = countsTurns ? traits.loop.map { TurnMeter(of: $0, isRead: true) } : nil
    return WatchedLoop.Subject(
      label: .init(name: loop.name, kind: traits.kind),
      thread: thread.id == getpid() ? .init(id: thread.id, stackEnd: ProcessFacts.mainStackEnd()) : thread,
      limits: .init(
        threshold: loop.threshold.nanoseconds, hasOwnThreshold: loop.hasOwnThreshold,
        suspension: Suspension(within: suspension)),
      publication: loop.publication,
      inspection: .init(state: traits.state, knownRuns: traits.knownRuns, meter: { meter }))
  }

  /// Watches a loop of no thread's by a watchdog that never starts, and ends that.
  ///
  /// The Swift runtime makes generic types when they are first used, which takes some 10 KiB of stack: here, and not on a loop's own thread,
  /// which may have little. Call it when the monitor starts.
  func rehearse() {
    let scratch = LoopRegistry(
      watchdog: Watchdog(),
      recordsFactory: LoopRecordsFactory(
        sentinel: recordsFactory.sentinel, keepsRecords: recordsFactory.keepsRecords),
      suspension: Suspension(), configuration: configuration)
    guard let loop = try? scratch.register(name: "rehearsal", threshold: .seconds(1)) else { return }
    loop.begin(RegisteredLoop.Traits(kind: { .ownLoop }), isRehearsal: true) { {} }
    loop.publication.pulse.turn(.afterWaiting)
    loop.publication.pulse.idle()
    loop.end()
    scratch.watchdog.list.removeAll()
  }

  func remove(_ loop: RegisteredLoop) {
    entries.withLock { if $0?[loop.name]?.loop === loop { $0?[loop.name] = nil } }
  }

  /// Takes no more loops, and ends the watch of all.
  ///
  /// The watchdog is to be stopped next; it closes the stalls that are open.
  func close() {
    let loops = entries.withLock { entries in
      defer { entries = nil }
      return entries?.values.compactMap(\.loop) ?? []
    }
    for loop in loops { loop.end(watchdogStops: true) }
  }
}
