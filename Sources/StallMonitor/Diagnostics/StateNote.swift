/// A log of the service's.
protocol StateLog: AnyObject, Sendable {
  func write(_ note: StateNote)
}

/// A message of the monitor's about itself.
struct StateNote: Sendable {
  enum Level: Sendable {
    case info
    case warning
  }

  var level: Level
  var text: String
  var metadata: [(key: String, value: String)] = []
}

/// Carries messages to the service's log.
protocol NoteCarrier: AnyObject, Sendable {
  /// False in the child of a fork, which has no thread for it.
  var isInOwnProcess: Bool { get }

  /// Takes a note; false if there is no log for it.
  func carry(_ note: StateNote) -> Bool
}
