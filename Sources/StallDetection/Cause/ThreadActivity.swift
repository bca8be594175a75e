import StallReport

/// What a thread was seen doing at one moment.
package enum ThreadActivity: Equatable, Sendable {
  /// On a processor, or waiting for one.
  case running
  /// Blocked in a system call, for this reason.
  case inCall(Cause)
  /// Blocked in the kernel outside of a system call: for a page of memory, as a rule.
  case outsideCall
  /// The thread has ended, or the kernel does not show what it does.
  case unknown

  /// Whether the thread was ready to run, and did not wait; nil if that is not known.
  package var isReady: Bool? {
    switch self {
    case .running: true
    case .inCall, .outsideCall: false
    case .unknown: nil
    }
  }

  /// The state as a report names it; nil if it is not known.
  package var reported: String? { isReady.map { $0 ? "running" : "blocked" } }
}
