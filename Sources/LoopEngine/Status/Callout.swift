extension Loop {
  /// A call of a loop to code that was scheduled on it, with the line that scheduled it.
  public struct Callout: Sendable {
    /// The kinds of work that a loop calls.
    public enum Kind: UInt8, Sendable {
      /// A block of `perform`, or a job of an executor.
      case block = 1
      /// A timer that is due.
      case timer = 2
      /// A signalled source.
      case source = 3
      /// A descriptor source that is ready.
      case descriptor = 4
      /// An observer.
      case observer = 5
      /// The main dispatch queue, with the jobs of the main actor.
      case mainQueue = 6
      /// Idle work.
      case idle = 7
      /// A flush before waiting.
      case flush = 8
    }

    /// What sort of work it is.
    public let kind: Kind
    /// The `#fileID` of the line that scheduled the work, nil where there is none (the main queue, a job of an executor).
    public var fileID: String? { file?.description }
    /// The line in that file, 0 where there is none.
    public let line: UInt32
    /// The name that was given to the work, if any.
    public var name: String? { nameText?.description }

    let file: ImmortalText?
    let nameText: ImmortalText?
  }

  /// What a loop is doing, as another thread sees it.
  ///
  /// Each access to one of its texts makes a string.
  public struct Snapshot: Sendable {
    /// Whether the loop sleeps for events.
    public let isWaiting: Bool
    /// The mode that the innermost run serves, nil outside of a run.
    public var mode: String? { modeText?.description }
    /// The innermost callout, nil between callouts.
    public let callout: Callout?
    /// Whether the thread of the loop has ended.
    public let hasEnded: Bool

    let modeText: ImmortalText?
  }
}
