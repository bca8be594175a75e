extension Loop {
  /// A call of a loop to code that was scheduled on it, with the line that scheduled it.
  public struct Callout: Sendable {
    /// A kind of work that a loop calls.
    public struct Kind: Sendable, Hashable, CustomStringConvertible {
      enum Value: UInt8 {
        case block = 1
        case timer = 2
        case source = 3
        case descriptor = 4
        case observer = 5
        case mainQueue = 6
        case idle = 7
        case flush = 8
      }

      let value: Value

      /// A block of `perform`, or a job of an executor.
      public static let block = Kind(value: .block)
      /// A timer that is due.
      public static let timer = Kind(value: .timer)
      /// A signalled source.
      public static let source = Kind(value: .source)
      /// A descriptor source that is ready.
      public static let descriptor = Kind(value: .descriptor)
      /// An observer.
      public static let observer = Kind(value: .observer)
      /// The main dispatch queue, with the jobs of the main actor.
      public static let mainQueue = Kind(value: .mainQueue)
      /// Idle work.
      public static let idle = Kind(value: .idle)
      /// A flush before waiting.
      public static let flush = Kind(value: .flush)

      /// The kind in the words of a report.
      public var description: String {
        switch value {
        case .block: "block"
        case .timer: "timer"
        case .source: "source"
        case .descriptor: "descriptor"
        case .observer: "observer"
        case .mainQueue: "main queue"
        case .idle: "idle work"
        case .flush: "flush"
        }
      }
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
