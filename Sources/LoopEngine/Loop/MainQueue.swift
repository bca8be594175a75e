import CLinux
import Glibc

/// The main dispatch queue as a source of `Loop.main`, through libdispatch's entry points for foreign run loops.
///
/// The symbols are weak: a program without libdispatch has no main queue, and this library does not give it one.
enum MainQueue {
  static let isAvailable = clinux_dispatch_is_linked() != 0

  /// Runs what is queued.
  ///
  /// Not to be called from within itself.
  static func drain(_ descriptor: Int32) {
    var count: UInt64 = 0
    _ = read(descriptor, &count, 8)
    clinux_dispatch_drain_main_queue()
  }

  static func isReady(_ descriptor: Int32) -> Bool {
    var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&request, 1, 0) > 0
  }
}
