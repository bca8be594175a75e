// Values that the monitor for Linux hands out. Here nobody makes one.

/// A loop that is watched.
public struct WatchedLoopStatus: Sendable, Hashable {
  public let name: String
  public let kind: String?
  public let threadID: Int32?
  public let threshold: Duration
}

/// A thread's call stack.
public struct ThreadBacktrace: Sendable, Hashable {
  /// A function on the stack.
  public struct Frame: Sendable, Hashable {
    public var symbol: String?
    public var file: String?
    public var line: Int?
    public var isInlined: Bool
    public var isAsync: Bool
    public var module: String?
    public var buildID: String?
    public var offset: UInt64?
  }

  public var id: Int32
  public var name: String?
  public var isRunning: Bool
  public var wait: String?
  public var frames: [Frame]
  public var isApproximate: Bool
  public var isTruncated: Bool
  public var isChildTask: Bool
  public var failure: String?
}

/// A stall, as an action is told of it.
public struct StallNotice: Sendable, Hashable {
  public var id: String
  public var event: String
  public var duration: Duration
  public var cause: String
  public var culprit: String?
  public var fingerprint: String?
  public var loopName: String
  public var detailFile: String?
  public var isTold: Bool
  public var line: String
}

// What the shared files use of parts that exist on Linux alone.

struct StallTally {}

struct TurnHistogram {}

struct MonitorSetting {
  let allowed: String
  static let stateDirectory = MonitorSetting(allowed: "an absolute path")
}

extension String {
  /// The beginning of the text, with at most that many bytes of UTF-8.
  func limited(to limit: Int) -> String {
    var text = self
    while text.utf8.count > limit { text.removeLast() }
    return text
  }
}
