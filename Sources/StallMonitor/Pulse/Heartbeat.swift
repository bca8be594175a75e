/// What watches a loop that has no observers: work that is queued to it, and is to be run in time.
///
/// A beat that is under way is a turn of the loop's pulse: it begins when the beat is queued, and ends when it is run. All methods on the
/// watchdog; they take no lock that the host can hold.
protocol Heartbeat: Sendable {
  /// Whether the loop is watched by this, and not by observers.
  var isBeating: Bool { get }

  /// Queues a beat, unless it can be told that the loop is idle.
  ///
  /// Call it while none is under way.
  func beat()

  /// Whether the loop will never run what is queued: it has been let go, or its thread has ended.
  var isOver: Bool { get }
}

extension Heartbeat {
  var isOver: Bool { false }
}
