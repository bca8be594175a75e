/// What the subject of a report's message did, in the forms that messages have.
///
/// The agent writes the message of a stall whose process ended from its last line: it finds the forms there.
package enum StallVerb: CaseIterable, Sendable {
  case stopped
  case blocked
  case blockedItsThread
  case didNotRespond

  /// After the subject: `main loop blocked for 5 ms`.
  package var past: String {
    switch self {
    case .stopped: "was stopped"
    case .blocked: "blocked"
    case .blockedItsThread: "blocked its thread"
    case .didNotRespond: "did not respond"
    }
  }

  /// After `has` and `had`: `main loop has been blocked for 5 ms`.
  package var participle: String {
    switch self {
    case .stopped: "been stopped"
    case .blocked: "been blocked"
    case .blockedItsThread: "blocked its thread"
    case .didNotRespond: "not responded"
    }
  }
}
