import CLinux
import PlatformLibc

/// The main dispatch queue as a source of `Loop.main`, through libdispatch's entry points for foreign run loops.
///
/// The symbols are weak: a program without libdispatch has no main queue, and this library does not give it one.
enum MainQueue {
  /// Whether there is a main queue that a loop can serve.
  ///
  /// The child of a fork on another thread than the main one has none: libdispatch lets nobody but that thread serve the queue.
  static var isAvailable: Bool { clinux_dispatch_is_linked() != 0 && !clinux_fork_has_left_main_thread() }

  /// The descriptor by which libdispatch says that something is queued, nil if there is none left for it.
  ///
  /// libdispatch makes it when it is first asked, and stops the program if it cannot.
  static func descriptor() -> Int32? {
    // Two, as another thread may take one of them meanwhile.
    let spare = [eventfd(0, Int32(EFD_CLOEXEC)), eventfd(0, Int32(EFD_CLOEXEC))]
    for descriptor in spare where descriptor >= 0 { close(descriptor) }
    return spare.contains { $0 < 0 } ? nil : clinux_dispatch_main_queue_descriptor()
  }

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
