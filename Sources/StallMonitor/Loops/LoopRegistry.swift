import CLinux
import Glibc
import StallCapture
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
    var watch: LoopWatch?
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

  /// Makes the watch of a loop, which is to begin on the loop's thread.
  func makeWatch(
    name: String, threshold: Duration?, identity: Identity? = nil
  ) throws(StallMonitorError) -> LoopWatch {
    guard isInOwnProcess else { throw StallMonitorError(.notWatching) }
    try StallMonitorConfiguration.checkLoop(name: name, threshold: threshold)
    let watch = LoopWatch(
      name: name, threshold: threshold ?? configuration.threshold, hasOwnThreshold: threshold != nil,
      publication: makePublication(), registry: self)
    try entries.withLock { entries throws(StallMonitorError) in
      guard let known = entries else { throw StallMonitorError(.notWatching) }
      if let identity, let twin = known.first(where: { $0.value.identities.contains(identity) }) {
        throw StallMonitorError(.loopAlreadyWatched(name: twin.key))
      }
      if known[name] != nil { throw StallMonitorError(.nameTaken(name)) }
      entries?[name] = Entry(identities: identity.map { [$0] } ?? [], watch: watch)
    }
    return watch
  }

  /// What the watchdog has to know of a loop.
  func subject(of watch: LoopWatch, _ traits: LoopWatch.Traits, threadID: Int32) -> WatchedLoop.Subject {
    let meter = countsTurns ? traits.loop.map { TurnMeter(of: $0, isRead: true) } : nil
    return WatchedLoop.Subject(
      label: .init(name: watch.name, kind: traits.kind),
      thread: .init(
        id: threadID,
        stackEnd: threadID == getpid() ? ProcessFacts.mainStackEnd() : UInt64(clinux_own_stack_end())),
      limits: .init(
        threshold: watch.threshold.nanoseconds, hasOwnThreshold: watch.hasOwnThreshold,
        suspension: Suspension(within: suspension)),
      publication: watch.publication,
      inspection: .init(state: traits.state, isInUnseenRun: traits.isInUnseenRun, meter: { meter }))
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
    guard let watch = try? scratch.makeWatch(name: "rehearsal", threshold: .seconds(1)) else { return }
    watch.begin(LoopWatch.Traits(kind: { LoopKind.ownLoop }), isRehearsal: true) { {} }
    watch.publication.pulse.turn(.afterWaiting)
    watch.publication.pulse.idle()
    watch.stop()
  }

  func remove(_ watch: LoopWatch) {
    entries.withLock { if $0?[watch.name]?.watch === watch { $0?[watch.name] = nil } }
  }

  /// Takes no more loops, and ends the watch of all.
  ///
  /// The watchdog is to be stopped next; it closes the stalls that are open.
  func close() {
    let watches = entries.withLock { entries in
      defer { entries = nil }
      return entries?.values.compactMap(\.watch) ?? []
    }
    for watch in watches { watch.end(watchdogStops: true) }
  }
}
