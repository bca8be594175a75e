import StallReport

/// A way in which the demo's service stalls, and what its report must have.
enum PlannedStall: CaseIterable {
  case computing
  case sleeping
  case reading
  case locking

  /// How long it blocks the loop.
  var duration: Duration {
    switch self {
    case .computing: .milliseconds(1300)
    case .sleeping: .milliseconds(400)
    case .reading: .milliseconds(500)
    case .locking: .milliseconds(600)
    }
  }

  /// The responsible function.
  var function: String {
    switch self {
    case .computing: "computeWithoutPause"
    case .sleeping: "sleepOnTheMainLoop"
    case .reading: "readFromASlowPeer"
    case .locking: "waitForABusyLock"
    }
  }

  /// What the report may give as the cause; on a machine without a processor to spare, a stall on CPU is truly starved.
  var causes: [Cause] {
    switch self {
    case .computing: Cause.allCases.filter(\.isReady)
    case .sleeping: [.sleep]
    case .reading: [.io]
    case .locking: [.lock]
    }
  }

  func perform() {
    switch self {
    case .computing: DemoHost.computeWithoutPause()
    case .sleeping: DemoHost.sleepOnTheMainLoop()
    case .reading: DemoHost.readFromASlowPeer()
    case .locking: DemoHost.waitForABusyLock()
    }
  }
}
