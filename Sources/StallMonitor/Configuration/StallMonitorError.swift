/// The reason why a monitor could not be started, or a loop could not be watched.
///
/// Compare its ``code``; the text is for people.
public struct StallMonitorError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of an error.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Value: String {
      case invalidConfiguration, invalidLoop, sinkCannotBeOpened, alreadyWatching, noThread, loopAlreadyWatched
      case nameTaken, loopHasEnded, noCoreFoundation, unsupportedEventLoop, noDescriptor
    }

    private let value: Value

    private init(_ value: Value) { self.value = value }

    /// A value of the configuration in code, or of a key of a `ConfigReader`, is invalid.
    public static let invalidConfiguration = Code(.invalidConfiguration)
    /// A loop's name or threshold is invalid, or the object is no run loop.
    public static let invalidLoop = Code(.invalidLoop)
    /// The sink of the configuration in code cannot be opened.
    public static let sinkCannotBeOpened = Code(.sinkCannotBeOpened)
    /// Another monitor is active in this process.
    public static let alreadyWatching = Code(.alreadyWatching)
    /// A thread that the monitor needs could not be made.
    public static let noThread = Code(.noThread)
    /// The loop is already watched.
    public static let loopAlreadyWatched = Code(.loopAlreadyWatched)
    /// Another loop is watched by this name.
    public static let nameTaken = Code(.nameTaken)
    /// The loop's thread has exited.
    public static let loopHasEnded = Code(.loopHasEnded)
    /// The process has no CoreFoundation, and so none of its run loops.
    public static let noCoreFoundation = Code(.noCoreFoundation)
    /// An event loop cannot be watched: it may have no thread of its own.
    public static let unsupportedEventLoop = Code(.unsupportedEventLoop)
    /// The process has no descriptor left.
    public static let noDescriptor = Code(.noDescriptor)

    /// The name of the static member.
    public var description: String { value.rawValue }
  }

  /// The kind of an error, with its values.
  package enum Reason: Sendable, Hashable {
    /// `key` is the property, `allowed` the values that it may have, in words.
    case invalidConfiguration(key: String, value: String, allowed: String)
    case invalidLoop(key: String, value: String, allowed: String)
    case sinkCannotBeOpened(sink: String, reason: String)
    case alreadyWatching
    /// `code` is the errno value.
    case noThread(code: Int32)
    case loopAlreadyWatched(name: String)
    case nameTaken(String)
    case loopHasEnded(name: String)
    case noCoreFoundation
    /// Keys of a `ConfigReader`, in words.
    case invalidKeys(String)
    /// The error of another package.
    case other(Code, message: String)
  }

  package let reason: Reason

  package init(_ reason: Reason) { self.reason = reason }

  /// Makes an error, as a package that watches other loops needs one.
  ///
  /// - Parameters:
  ///   - code: The kind of the error.
  ///   - message: The error in one line for people.
  public init(_ code: Code, message: String) { self.init(.other(code, message: message)) }

  /// The kind of the error.
  public var code: Code {
    switch reason {
    case .invalidConfiguration: .invalidConfiguration
    case .invalidLoop: .invalidLoop
    case .sinkCannotBeOpened: .sinkCannotBeOpened
    case .alreadyWatching: .alreadyWatching
    case .noThread: .noThread
    case .loopAlreadyWatched: .loopAlreadyWatched
    case .nameTaken: .nameTaken
    case .loopHasEnded: .loopHasEnded
    case .noCoreFoundation: .noCoreFoundation
    case .invalidKeys: .invalidConfiguration
    case .other(let code, _): code
    }
  }

  /// The error in one line for people.
  public var message: String {
    switch reason {
    case .invalidConfiguration(let key, let value, let allowed):
      "StallMonitorConfiguration.\(key) is \(value); allowed: \(allowed)"
    case .invalidLoop(let key, let value, let allowed): "the loop's \(key) is \(value); allowed: \(allowed)"
    case .sinkCannotBeOpened(let sink, let reason):
      "cannot open the sink \(sink): \(reason); allowed: \(StallMonitorConfiguration.Sink.allowed)"
    case .alreadyWatching:
      "another StallMonitor is active in this process: use StallMonitor.current, or stop() it first"
    case .noThread(let code): "cannot create a thread of the monitor (errno \(code))"
    case .loopAlreadyWatched(let name): "the loop is already watched as \"\(name)\""
    case .nameTaken(let name): "another loop is already watched as \"\(name)\""
    case .loopHasEnded(let name): "the thread of the loop \"\(name)\" has exited"
    case .noCoreFoundation: "this process does not use CoreFoundation, so it has no CFRunLoop"
    case .invalidKeys(let message), .other(_, let message): message
    }
  }

  /// The ``message``.
  public var description: String { message }
}
