import NIOConcurrencyHelpers
import NIOCore

/// The watch over the event loops of a group.
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

/// Why a group cannot be watched.
public enum EventLoopGroupWatchError: Error, Sendable, Equatable, CustomStringConvertible {
  /// An event loop that is not one of `MultiThreadedEventLoopGroup`'s: it may have no thread of its own. `type` is what it is.
  case unsupportedEventLoop(name: String, type: String)
  /// No descriptor was to be had. `code` is the errno value.
  case noDescriptor(name: String, code: Int32)

  /// The error in one line for people.
  public var description: String {
    switch self {
    case .unsupportedEventLoop(let name, let type):
      "\(name) is \(type); allowed: event loops of a MultiThreadedEventLoopGroup"
    case .noDescriptor(let name, let code): "\(name) cannot be watched: no descriptor (errno \(code))"
    }
  }
}
