import Glibc
import StallCapture
import StallReport

/// Finds libdispatch's worker threads where jobs cannot be stamped, and has the watchdog watch each of them.
///
/// Belongs to the watchdog's thread.
final class WorkerScan: @unchecked Sendable {  // Used by the watchdog alone.
  private let watch: TaskPool.Watch
  private var workers: [Int32: ScannedWorker] = [:]

  init(_ watch: TaskPool.Watch) { self.watch = watch }

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
      let worker = ScannedWorker(
        id: id, pulse: publication.pulse, leastThreshold: isLow ? watch.backgroundThreshold : 0)
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
