import StallCapture
import Synchronization

/// The loops that a watchdog watches, as other threads change them.
///
/// Thread-safe. The watchdog takes changes in their order, without waiting for their lock. It waits for a lock only to make a change itself
/// (``WorkerDiscovery``), and to retire loops.
final class WatchList: Sendable {
  /// What is to become of a loop.
  enum Change {
    case watch(WatchedLoop.Subject)
    case forget(Pulse)
  }

  /// The threshold of loops that have none of their own, in nanoseconds, once an agent has set one; 0 before.
  let agentThreshold = Atomic<UInt64>(0)
  private let semaphore: WakeSemaphore
  // Held for an append. To take changes, the watchdog only tries it.
  private let changes = Mutex<[Change]>([])
  private let hasChanges = Atomic<Bool>(false)
  private let list = Mutex<[WatchedLoop.Subject]>([])
  // What the watchdog no longer uses, and must not release: objects of the service's end with it, and may close descriptors of its table.
  private let retired = Mutex<[WatchedLoop.Subject]>([])

  /// A list whose changes wake a watchdog by this semaphore.
  init(semaphore: WakeSemaphore) { self.semaphore = semaphore }

  /// The loops that are watched, in the order in which they came.
  var subjects: [WatchedLoop.Subject] { list.withLock { $0 } }

  /// Watches a loop from now on.
  func watch(_ subject: WatchedLoop.Subject) {
    releaseRetired()
    // Of other work it is not known whether one piece or several took the time.
    if subject.work == nil { subject.pulse.noteTurns(lasting: subject.limits.threshold) }
    list.withLock { $0.append(subject) }
    change(.watch(subject))
  }

  /// Watches the loop of this pulse no longer.
  ///
  /// A stall of it that lasts is reported as ended.
  func forget(_ pulse: Pulse) {
    // Out of the lock, and on the thread of the service's that calls: the last reference may be here.
    let forgotten = list.withLock { subjects in
      let forgotten = subjects.filter { $0.pulse === pulse }
      subjects.removeAll { $0.pulse === pulse }
      return forgotten
    }
    if OwnThreads.isApart { retired.withLock { $0 += forgotten.filter(\.mayHoldServiceObjects) } }
    releaseRetired()
    change(.forget(pulse))
  }

  private func change(_ change: Change) {
    changes.withLock { $0.append(change) }
    hasChanges.store(true, ordering: .releasing)
    semaphore.post()
  }

  /// Releases what the watchdog no longer uses; does nothing on a thread with a descriptor table of its own.
  func releaseRetired() {
    guard !OwnThreads.isApart else { return }
    let old = retired.withLock { take(&$0) }
    withExtendedLifetime(old) {}
  }

  /// Releases all loops, which refer to the list; when the watchdog has ended.
  func removeAll() {
    let old = (list.withLock { take(&$0) }, changes.withLock { take(&$0) }, retired.withLock { take(&$0) })
    withExtendedLifetime(old) {}
  }

  /// Empties a list, whose elements are to be released without its lock.
  private func take<Element>(_ list: inout [Element]) -> [Element] {
    defer { list = [] }
    return list
  }

  // MARK: The watchdog's side

  /// The changes since the last call, in their order; none while a thread of the service's holds the list.
  func takeChanges() -> [Change] {
    guard hasChanges.exchange(false, ordering: .acquiring) else { return [] }
    let new = changes.withLockIfAvailable { take(&$0) }
    if new == nil { hasChanges.store(true, ordering: .releasing) }
    return new ?? []
  }

  /// Keeps the loops' subjects for a thread of the service's.
  ///
  /// Returns what can ask for their release on such a thread; do it when the watchdog holds none of them any more.
  func retire(_ loops: [WatchedLoop]) -> [BeatPoster] {
    retired.withLock { $0 += loops.map(\.subject).filter(\.mayHoldServiceObjects) }
    return loops.compactMap { $0.subject.heartbeat?.poster }
  }
}
