/// A snapshot of a watched loop: its name, kind, thread and threshold.
public struct WatchedLoopStatus: Sendable, Hashable {
  /// Which run loop it is, as a report's `loop.kind` says it.
  public struct Kind: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The word of the report.
    public let rawValue: String

    /// A kind by the word of the report.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A loop of LoopEngine.
    public static let loop = Kind(rawValue: "loop")
    /// A run loop of Foundation.
    public static let foundation = Kind(rawValue: "foundation")
    /// An event loop of SwiftNIO.
    public static let nio = Kind(rawValue: "nio")
    /// A loop that the service describes by a ``LoopDescription``.
    public static let executor = Kind(rawValue: "executor")
    /// A loop in C.
    public static let c = Kind(rawValue: "c")
    /// The main queue of libdispatch without a run loop.
    public static let mainQueue = Kind(rawValue: "main-queue")
    /// A thread of the task pool.
    public static let taskPool = Kind(rawValue: "task-pool")
    /// The task pool as a whole.
    public static let cooperativePool = Kind(rawValue: "cooperative-pool")

    /// The word of the report.
    public var description: String { rawValue }
  }

  /// The loop's name in reports; the main loop is `main`.
  public let name: String
  /// Which run loop it is; nil for a main loop that has not turned yet.
  ///
  /// It changes if the service changes from a run loop to `dispatchMain()`.
  public let kind: Kind?
  /// The thread that runs it; nil if none does at this moment, as for a main queue without work, or if it is unknown.
  public let threadID: Int32?
  /// How long a turn of the loop may take now before it is a stall.
  ///
  /// Of tasks, this is the threshold of those that are not of low priority.
  public let threshold: Duration
}
