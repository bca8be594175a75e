/// A stall, as it is passed to the closure of an action.
///
/// Events and causes have the words of the report line (`Config/schema/stall-report.schema.json`).
public struct StallNotice: Sendable, Hashable {
  /// The state of the stall: the `event.name` of a report.
  public struct Event: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The word of the report.
    public let rawValue: String

    /// An event by the word of the report.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The stall was detected.
    public static let started = Event(rawValue: "stall.started")
    /// The stall lasts.
    public static let ongoing = Event(rawValue: "stall.ongoing")
    /// The stall is over.
    public static let ended = Event(rawValue: "stall.ended")

    /// The word of the report.
    public var description: String { rawValue }
  }

  /// Why the loop was blocked, as a report's `stall.cause` says it.
  public struct Cause: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The word of the report.
    public let rawValue: String

    /// A cause by the word of the report.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The loop's thread ran on a CPU.
    public static let running = Cause(rawValue: "running")
    /// It waited for another thread or process: a lock, a condition, a semaphore, the end of a child.
    public static let lock = Cause(rawValue: "lock")
    /// It waited for a file, a socket, a pipe or a descriptor's readiness.
    public static let io = Cause(rawValue: "io")
    /// It slept.
    public static let sleep = Cause(rawValue: "sleep")
    /// It was ready to run and got no CPU.
    public static let starved = Cause(rawValue: "starved")
    /// Its control group had used up its CPU quota.
    public static let throttled = Cause(rawValue: "throttled")
    /// It waited for memory to be read from disk.
    public static let fault = Cause(rawValue: "fault")
    /// A debugger stopped its thread, or the whole process was stopped, frozen or suspended.
    public static let stopped = Cause(rawValue: "stopped")
    /// The evidence is not sufficient.
    public static let unknown = Cause(rawValue: "unknown")

    /// The word of the report.
    public var description: String { rawValue }
  }

  /// The identifier that all reports of one stall have in common.
  public var id: String
  /// What has happened to the stall.
  public var event: Event
  /// How long the loop has been blocked.
  public var duration: Duration
  /// Why the loop was blocked.
  public var cause: Cause
  /// The loop's name.
  public var loopName: String
  /// The responsible function: the innermost function of the service's own code, if it is known.
  ///
  /// Without such a function, it is the innermost function that has a name. Without names, it is a module and an offset
  /// (`web+0x4711`). This is normal with the agent as the sink, which looks up function names itself, unless the service's
  /// entry in the agent's settings has `symbolication: host`.
  public var culprit: String?
  /// A hash of one function, for grouping stalls; nil if no function of the service is on the
  /// stack, or if its name is not known yet.
  public var fingerprint: String?
  /// The path of the detail file, if it has been written.
  public var detailFile: String?
  /// Whether the stall is reported by lines, and not only counted as a repetition of another one.
  public var isReported: Bool
  /// The report as of now: one line of JSON, without a newline.
  public var jsonLine: String

  /// Makes a notice, for tests of an action.
  public init(
    id: String, event: Event, duration: Duration, cause: Cause, loopName: String, culprit: String? = nil,
    fingerprint: String? = nil, detailFile: String? = nil, isReported: Bool = true, jsonLine: String
  ) {
    self.id = id
    self.event = event
    self.duration = duration
    self.cause = cause
    self.loopName = loopName
    self.culprit = culprit
    self.fingerprint = fingerprint
    self.detailFile = detailFile
    self.isReported = isReported
    self.jsonLine = jsonLine
  }
}
