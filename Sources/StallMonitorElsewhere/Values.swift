// Values that the monitor for Linux hands out. Here nobody makes one.

/// A loop that a monitor watches, as it is at one moment.
public struct WatchedLoopStatus: Sendable, Hashable {
  /// The loop's name in reports; the main loop is `main`.
  public let name: String
  /// Which run loop it is, as a report's `loop.kind` says it: `loop`, `foundation`, `main-queue`, `nio` and so on.
  ///
  /// Nil for a main loop that has not turned yet. It may change: a host may go over from a run loop to `dispatchMain()`.
  public let kind: String?
  /// The thread that runs it; nil if none does at this moment, as for a main queue without work.
  public let threadID: Int32?
  /// How long a turn of the loop may take before it is a stall.
  public let threshold: Duration
}

/// One thread of this process at one moment: what it did, and its call stack with names.
///
/// ``StallMonitor/captureAllThreads(timeLimit:)`` makes them. Its `description` is text for people, one line a frame.
public struct ThreadBacktrace: Sendable, Hashable {
  /// A call on the stack.
  public struct Frame: Sendable, Hashable {
    /// The function's demangled name, if it is known.
    public var symbol: String?
    /// The source file, if it is known.
    public var file: String?
    /// The line in it.
    public var line: Int?
    /// Whether the call was inlined into the next frame that is not.
    public var isInlined: Bool
    /// Whether the function is not on the stack: it waits for an asynchronous call that the frames before it belong to.
    public var isAsync: Bool
    /// The executable or library, if the code lies in one.
    public var module: String?
    /// The module's GNU build id in hexadecimal, if it has one.
    public var buildID: String?
    /// The address in the module that `addr2line` takes; for a caller, of the call and not of its return.
    public var offset: UInt64?
  }

  /// The kernel's id of the thread.
  public var id: Int32
  /// The thread's name: at most 15 bytes.
  public var name: String?
  /// Whether it ran, or was ready to.
  public var isRunning: Bool
  /// What it was blocked in, in words, such as `read(fd 7 → pipe:[1234])`.
  ///
  /// Nil if it ran, or if that is not known.
  public var wait: String?
  /// The calls, innermost first; empty if they could not be had.
  public var frames: [Frame]
  /// Whether a frame may be wrong: it was found by scanning the stack.
  public var isApproximate: Bool
  /// Whether outer frames could not be found.
  public var isTruncated: Bool
  /// Whether the thread runs a child task: the functions that wait for it are in its parent task, and not among the frames.
  public var isChildTask: Bool
  /// Why there are no frames, in words.
  public var failure: String?
}

/// What an action learns of a stall.
///
/// Words are those of the report line (`Config/schema/stall-report.schema.json`).
public struct StallNotice: Sendable, Hashable {
  /// The same in all reports of one stall.
  public var id: String
  /// `stall.started`, `stall.ongoing` or, if it is over, `stall.ended`.
  public var event: String
  /// How long the loop has been blocked.
  public var duration: Duration
  /// Why: `running`, `lock`, `io` and so on.
  public var cause: String
  /// The innermost function of the service's own code, if it is known.
  public var culprit: String?
  /// The same for stalls of the same kind; nil if the stack is not known.
  public var fingerprint: String?
  /// The loop's name.
  public var loopName: String
  /// The detail file, if it has been written.
  public var detailFile: String?
  /// Whether the stall is reported by lines, and not only counted as a repetition of another one.
  public var isTold: Bool
  /// The report as of now: one line of JSON, without a newline.
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
