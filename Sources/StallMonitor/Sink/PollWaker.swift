import CLinux
import DescriptorIO
import PlatformLibc
import StallCapture
import Synchronization

/// Wakes the output thread from its poll.
///
/// A pair of sockets, each end a file of its own, so that the identity of each can be checked where the process's descriptor table is shared.
/// There a service may close the ends: ``wake()`` then writes to nobody, and the thread, whose poll has a time limit in that case, makes new ones.
final class PollWaker: Sendable {
  /// The longest sleep of a thread that may not be woken any more, in nanoseconds.
  static let sharedTableInterval: UInt64 = 200_000_000

  private struct Ends {
    var inner: GuardedDescriptor?
    var outer: GuardedDescriptor?

    var isIntact: Bool { inner?.isIntact == true && outer?.isIntact == true }

    func close() {
      inner?.close()
      outer?.close()
    }
  }

  // Held for a few system calls that never wait.
  private let ends = Mutex(Ends())
  private let isWaking = Atomic<Bool>(false)

  deinit { ends.withLock { $0.close() } }

  /// Wakes the thread; from any other one with the same descriptor table.
  ///
  /// Returns false if its poll cannot be woken.
  @discardableResult
  func wake() -> Bool {
    let wasWaking = isWaking.exchange(true, ordering: .sequentiallyConsistent)
    return ends.withLock {
      guard $0.isIntact, let outer = $0.outer else { return false }
      guard !wasWaking else { return true }
      var byte: UInt8 = 1
      _ = send(outer.number, &byte, 1, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
      return true
    }
  }

  /// Whether it was woken since the last ``reset()``.
  var isWoken: Bool { isWaking.load(ordering: .sequentiallyConsistent) }

  /// Takes the wake-up back, before the thread looks for what it was woken for; on the thread.
  ///
  /// Returns the descriptor to poll, or nil if there is none.
  func reset() -> Int32? {
    isWaking.store(false, ordering: .sequentiallyConsistent)
    return ends.withLock { ends in
      if ends.isIntact, let inner = ends.inner {
        // The byte of an earlier wake-up may arrive after the call that took it back.
        var bytes: UInt64 = 0
        _ = recv(inner.number, &bytes, 8, Int32(MSG_DONTWAIT))
        return inner.number
      }
      ends.close()
      ends = Ends()
      var pair: [Int32] = [-1, -1]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else { return nil }
      let made = Ends(inner: GuardedDescriptor(pair[0]), outer: GuardedDescriptor(pair[1]))
      guard Self.isUsable(pair) else {
        made.close()
        return nil
      }
      ends = made
      return pair[0]
    }
  }

  /// Whether a byte can be sent: a filter of the service's may refuse send(2).
  private static func isUsable(_ pair: [Int32]) -> Bool {
    var byte: UInt8 = 1
    return send(pair[1], &byte, 1, Int32(MSG_DONTWAIT | MSG_NOSIGNAL)) == 1
      && recv(pair[0], &byte, 1, Int32(MSG_DONTWAIT)) == 1
  }

  /// Sleeps until the thread is woken, or one of the entries is ready, or the time has come.
  ///
  /// - Parameters:
  ///   - descriptor: What ``reset()`` returned.
  ///   - entry: One more descriptor to wait for; -1 in it is ignored.
  ///   - deadline: A time of the monotonic clock; nil for none.
  func sleep(on descriptor: Int32?, or entry: pollfd, until deadline: UInt64?) {
    let now = MonotonicClock.now()
    var deadline = deadline
    if descriptor == nil || !OwnThreads.isApart { deadline = min(deadline ?? .max, now + Self.sharedTableInterval) }
    var milliseconds: Int32 = -1
    if let deadline { milliseconds = deadline > now ? Int32(clamping: (deadline - now + 999_999) / 1_000_000) : 0 }
    var entries = [pollfd(fd: descriptor ?? -1, events: Int16(POLLIN), revents: 0), entry]
    clinux_fork_monitor_thread_rests()
    defer { clinux_fork_monitor_thread_works() }
    if !isWoken { _ = poll(&entries, 2, milliseconds) }
  }
}
