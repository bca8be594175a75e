import PlatformLibc
import StallCapture
import StallReport

/// Finds libdispatch's worker threads, and has the watchdog watch those that run jobs without a stamp.
///
/// Where jobs are stamped, these are jobs that an executor of the service hands on to the global one: the runtime's hook does not see
/// them. Elsewhere they are all jobs.
///
/// Most services have no such executor. Where jobs are stamped, the watchdog therefore does not wake for a scan until one has found such a
/// job.
///
/// Belongs to the watchdog's thread.
final class WorkerDiscovery: @unchecked Sendable {  // Used by the watchdog alone.
  private let watch: TaskPool.Watch
  private var workers: [Int32: UnstampedWorker] = [:]
  private var nextScan: UInt64 = 0

  /// Whether the watchdog wakes once in a threshold to scan.
  private(set) var wakesWatchdog: Bool

  init(_ watch: TaskPool.Watch, wakesWatchdog: Bool) { (self.watch, self.wakesWatchdog) = (watch, wakesWatchdog) }

  /// From now on, the watchdog wakes to scan.
  func wakeWatchdog() {
    wakesWatchdog = true
    for worker in workers.values { worker.isDue = true }
  }

  /// Scans at most once in a threshold.
  func scan(at now: UInt64) {
    guard now >= nextScan else { return }
    // On the grid of heartbeats, which wake the watchdog.
    nextScan = (now / watch.threshold + 1) * watch.threshold
    scan()
    guard !wakesWatchdog else { return }
    for worker in workers.values where worker.pulse.word.phase == .idle { worker.beat() }
    let found = workers.values.filter(\.mayRunFirstJob)
    if !found.isEmpty {
      // Time enough to distinguish a job from a short one.
      usleep(UInt32(2 * RunningJob.work / 1000))
      found.forEach { $0.update() }
    }
    guard workers.values.contains(where: \.hasRunJob) else { return }
    wakeWatchdog()
    Diagnostics.say(
      "the task pool runs jobs that Swift's hook does not see, such as those that an executor of the service passes to "
        + "globalConcurrentExecutor: \(TaskPool.limitsWithoutHook)")
  }

  /// Watches workers that have come, and those that have ended no longer.
  ///
  /// Costs a few microseconds for each thread of the process.
  func scan() {
    let threads = ProcessHandle.own.threads()
    for id in threads where workers[id] == nil && workers.count < watch.threadLimit {
      // libdispatch names a worker by the end of its queue's label: com.apple.root.default-qos.
      guard let name = ProcessHandle.own.name(of: id), name.hasSuffix("-qos") else { continue }
      let isLow = name.hasSuffix("utility-qos") || name.hasSuffix("background-qos")
      let publication = watch.makePublication()
      let worker = UnstampedWorker(
        id: id, pulse: publication.pulse, leastThreshold: isLow ? watch.backgroundThreshold : 0,
        isDue: wakesWatchdog)
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
