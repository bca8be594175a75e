import StallReport

/// The parts that a monitor starts, and that it stops in `end()`.
struct WatchSession: Sendable {
  let registry: LoopRegistry
  let suspension: Suspension
  let couriers: Couriers
  /// Nil if the main loop is not watched.
  var mainThread: MainThreadWatch?
  /// Nil if the threads of Swift concurrency are not watched.
  var taskPool: TaskPool?
  /// Of all threads of the task pool: they have one name, and threads that come later belong to it, too.
  var taskPoolSuspension: Suspension?
  /// Nil if nothing asks whether a thread of Swift concurrency is free.
  var pool: CooperativePoolHeartbeat?

  var watchdog: Watchdog { registry.watchdog }

  /// The names of the loops that are watched, and of those that will be.
  var loopNames: [String] {
    watchdog.list.subjects.map(\.label.name) + (taskPoolSuspension == nil ? [] : [LoopKind.taskPool.rawValue])
  }

  /// What suspends the watch of the loops of this name; nothing if there is none.
  func suspensions(of name: String) -> [Suspension] {
    if name == LoopKind.taskPool.rawValue, let taskPoolSuspension { return [taskPoolSuspension] }
    return watchdog.list.subjects.filter { $0.label.name == name }.map(\.limits.suspension)
  }

  /// The threads that run code of the service, or wake its queues.
  ///
  /// That of a ``Courier`` exists only while it has users.
  struct Couriers: Sendable {
    /// Log and metrics; nil without them.
    var telemetry: TelemetryExporter?
    /// The closures of `actions`; nil without them.
    var actions: Courier?
    /// Heartbeats.
    var beats = Courier(name: "stall-beats")
  }

  /// Stops watching, and waits until the current reports have been written as far as their reader
  /// accepts them.
  func end() {
    registry.close()
    mainThread?.end()
    taskPool?.end()
    pool?.end()
    StandardErrorQueue.hold()
    watchdog.stop()
    couriers.beats.end()
    couriers.actions?.end()
    StandardErrorQueue.flush()
    Diagnostics.note("Stall monitor stopped")
    couriers.telemetry?.end()
    watchdog.list.removeAll()
  }
}
