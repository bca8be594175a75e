import NIOConcurrencyHelpers
import NIOCore

/// A handle that ends the watch of a group's event loops.
public final class EventLoopGroupWatch: Sendable {
  private let heartbeats = NIOLockedValueBox<[EventLoopHeartbeat]>([])

  init() {}

  func add(_ heartbeat: EventLoopHeartbeat) { heartbeats.withLockedValue { $0.append(heartbeat) } }

  func begin() { for heartbeat in heartbeats.withLockedValue({ $0 }) { heartbeat.begin() } }

  /// Ends the watch of the event loops.
  ///
  /// Idempotent, from any thread. Not needed before a group is shut down.
  public func stop() {
    let ended = heartbeats.withLockedValue { heartbeats in
      defer { heartbeats = [] }
      return heartbeats
    }
    for heartbeat in ended { heartbeat.stop() }
  }
}

/// The reason why a group cannot be watched.
///
/// Compare its ``code``; the text is for people.
public struct EventLoopGroupWatchError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of an error.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private let name: String

    /// An event loop is not one of `MultiThreadedEventLoopGroup`'s: it may have no thread of its
    /// own.
    public static let unsupportedEventLoop = Code(name: "unsupportedEventLoop")
    /// The process has no descriptor left.
    public static let noDescriptor = Code(name: "noDescriptor")

    /// The name of the static member.
    public var description: String { name }
  }

  /// The kind of the error.
  public let code: Code
  /// The error in one line for people.
  public let message: String

  /// The ``message``.
  public var description: String { message }

  static func unsupportedEventLoop(name: String, type: String) -> Self {
    Self(
      code: .unsupportedEventLoop, message: "\(name) is \(type); allowed: event loops of a MultiThreadedEventLoopGroup")
  }

  static func noDescriptor(name: String, errno: Int32) -> Self {
    Self(code: .noDescriptor, message: "\(name) cannot be watched: no descriptor (errno \(errno))")
  }
}
