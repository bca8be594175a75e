import CStallMonitor
import StallMonitor
import Synchronization

/// Where the one monitor of a process is kept, and the lock that guards it.
///
/// The child of a fork has the parent's, with a lock that a thread may hold which the child does not have. So it never
/// takes that lock: to the child there is no monitor, and if it starts one, that has a home of its own.
final class Home: Sendable {
  private let guarded = Mutex<StallMonitor?>(nil)
  private let process = ProcessMark()
  // How many threads start or stop the monitor at this moment, and may hold any lock of the library's.
  private let changes = Atomic<Int>(0)

  /// The monitor, if there is one.
  var monitor: StallMonitor? { guarded.withLock { $0 } }

  /// The home of this process's monitor.
  ///
  /// Nil before the first start, and in the child of a fork. Takes no lock.
  static var ofThisProcess: Home? {
    guard let home = latest, home.process.isThisProcess else { return nil }
    return home
  }

  /// The same, made if there is none.
  ///
  /// Nil in a child that was forked while the parent's monitor was being started or stopped.
  static func forStarting() -> Home? {
    while true {
      let found = latest
      if let found {
        if found.process.isThisProcess { return found }
        guard found.changes.load(ordering: .relaxed) == 0 else { return nil }
      }
      let made = Unmanaged.passRetained(Home())
      // Homes are never freed: a thread may be about to use the one that it found.
      let expected = found.map { Unmanaged.passUnretained($0).toOpaque() }
      if cstallmonitor_replace_home(expected, made.toOpaque()) { return made.takeUnretainedValue() }
      made.release()
    }
  }

  private static var latest: Home? {
    cstallmonitor_home().map { Unmanaged<Home>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Starts the monitor, or runs other work that takes locks.
  func change<Result, Failure: Error>(
    _ body: (inout StallMonitor?) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    changes.add(1, ordering: .sequentiallyConsistent)
    defer { changes.subtract(1, ordering: .sequentiallyConsistent) }
    return try guarded.withLock { (monitor: inout sending StallMonitor?) throws(Failure) -> Result in
      try body(&monitor)
    }
  }

  /// Stops the monitor, and waits for its reports without holding the lock.
  func stop() {
    changes.add(1, ordering: .sequentiallyConsistent)
    defer { changes.subtract(1, ordering: .sequentiallyConsistent) }
    let started = guarded.withLock { monitor in
      defer { monitor = nil }
      return monitor
    }
    started?.stop()
  }
}
