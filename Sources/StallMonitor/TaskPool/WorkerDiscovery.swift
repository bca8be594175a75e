import Glibc
import StallCapture
import StallReport

/// Finds libdispatch's worker threads, and has the watchdog watch those that run jobs without a stamp.
///
/// Where jobs are stamped, these are jobs that an executor of the service hands on to the global one: the runtime's hook does not see
/// them. Elsewhere they are all jobs.
///
/// Belongs to the watchdog's thread.
final class WorkerDiscovery: @unchecked Sendable {  // Used by the watchdog alone.
  private let watch: TaskPool.Watch
  private var workers: [Int32: UnstampedWorker] = [:]
  private var nextScan: UInt64 = 0

  /// Whether most jobs are stamped: then threads are scanned only when the watchdog is awake for something else.
  var isBesideStamps: Bool {
    didSet { for worker in workers.values { worker.isBesideStamps = isBesideStamps } }
  }

  init(_ watch: TaskPool.Watch, isBesideStamps: Bool) { (self.watch, self.isBesideStamps) = (watch, isBesideStamps) }

  /// Scans at most once in a threshold; beside stamps, for a watchdog that is awake for something else.
  func scan(at now: UInt64) {
    guard now >= nextScan else { return }
    // On the grid of heartbeats, which wake the watchdog.
    nextScan = (now / watch.threshold + 1) * watch.threshold
    scan()
    for worker in workers.values where worker.pulse.word.phase == .idle { worker.beat() }
  }

  /// Watches workers that have come, and those that have ended no longer.
  ///
  /// Costs a few microseconds for each thread of the process.
  func scan() {
    let threads = OwnProcess().threads()
    for id in threads where workers[id] == nil && workers.count < watch.threadLimit {
      // libdispatch names a worker by the end of its queue's label: com.apple.root.default-qos.
      guard let name = OwnProcess().name(of: id), name.hasSuffix("-qos") else { continue }
      let isLow = name.hasSuffix("utility-qos") || name.hasSuffix("background-qos")
      let publication = watch.makePublication()
      let worker = UnstampedWorker(
        id: id, pulse: publication.pulse, leastThreshold: isLow ? watch.backgroundThreshold : 0,
        isBesideStamps: isBesideStamps)
      workers[id] = worker
      watch.list.watch(
        watch.subject(.init(id: id, isWorker: true), publication: publication, work: worker, heartbeat: worker))
    }
    let alive = Set(threads)
    for (id, worker) in workers where !alive.contains(id) {
      worker.end()
      watch.list.forget(worker.pulse)
      workers[id] = nil
    }
  }
}
