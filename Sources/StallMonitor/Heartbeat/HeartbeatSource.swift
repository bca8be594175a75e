import StallReport

/// What watches a loop that has no observers: work that is queued to it, and is to be run in time.
///
/// A beat in progress is a turn of the loop's pulse: it begins when the beat is queued, and ends
/// when it is run. All methods on the watchdog; they take no lock that the service can hold, and
/// leave the queueing to the courier.
protocol HeartbeatSource: Sendable {
  /// Whether the loop is watched by this, and not by observers.
  var isBeating: Bool { get }

  /// Whether the loop may have work to do, so that a beat says something.
  var isDue: Bool { get }

  /// Whether the loop may later be watched by this, though it is not yet.
  var mayBegin: Bool { get }

  /// Looks whether the loop has come to be one that is watched by this.
  func begin()

  /// Notices that what a beat has begun is over; called before each check.
  func update()

  /// Queues a heartbeat, unless the loop is known to be idle.
  ///
  /// Call it while none is in progress.
  func beat()

  /// Ends the search for the thread that serves the loop, once a run loop serves it.
  func giveUpSearch()

  /// What posts its beats, if that ends with it.
  var poster: BeatPoster? { get }

  /// Which thread serves the loop at this moment.
  var server: LoopServer { get }

  /// Whose threads serve it; nil if it has one of its own.
  var pool: WorkerPool? { get }

  /// Whether the loop will never run what is queued: it has been released, or its thread has
  /// exited.
  var isOver: Bool { get }
}

extension HeartbeatSource {
  var isDue: Bool { true }
  var mayBegin: Bool { false }
  func begin() {}
  func update() {}
  func giveUpSearch() {}
  var poster: BeatPoster? { nil }
  var pool: WorkerPool? { nil }
  var isOver: Bool { false }
}

/// The thread that serves a loop at one moment.
enum LoopServer: Equatable, Sendable {
  case thread(Int32)
  /// It has work to do, and no thread does it.
  case nobody
  /// One may, and which one is not known.
  case unknown
}
