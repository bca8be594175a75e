import Glibc
import Synchronization

/// Wakes the agent's thread from its poll.
///
/// A pair of sockets, not an event counter: each end is a file of its own, so that a host that closes all descriptors, and opens others by the same
/// numbers, is never written to. poll(2) looks its descriptors up by their numbers again whenever it is woken: a host that has done so leaves it asleep, and
/// ``ring()`` says so.
final class AgentBell: Sendable {
  private struct Ends {
    var inner: Int32 = -1
    var outer: Int32 = -1
    var innerIdentity: FileIdentity?
    var outerIdentity: FileIdentity?

    var isIntact: Bool {
      innerIdentity != nil && FileIdentity(inner) == innerIdentity && FileIdentity(outer) == outerIdentity
    }
  }

  // Held for a few system calls that never wait.
  private let ends = Mutex(Ends())
  private let isRinging = Atomic<Bool>(false)

  deinit {
    ends.withLock {
      $0.innerIdentity?.close($0.inner)
      $0.outerIdentity?.close($0.outer)
    }
  }

  /// Wakes the thread; from any other.
  ///
  /// Returns false if its poll cannot be woken any more.
  func ring() -> Bool {
    let wasRinging = isRinging.exchange(true, ordering: .sequentiallyConsistent)
    return ends.withLock {
      guard $0.isIntact else { return false }
      guard !wasRinging else { return true }
      var byte: UInt8 = 1
      _ = send($0.outer, &byte, 1, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
      return true
    }
  }

  /// Whether it was rung since it was quieted.
  var isRung: Bool { isRinging.load(ordering: .sequentiallyConsistent) }

  /// Quiets it before what it was rung for is looked at; on the thread.
  ///
  /// Returns the descriptor to poll, or nil if there is none to be had.
  func quiet() -> Int32? {
    let isRung = isRinging.exchange(false, ordering: .acquiringAndReleasing)
    return ends.withLock { ends in
      if ends.isIntact {
        if isRung {
          var bytes: UInt64 = 0
          _ = recv(ends.inner, &bytes, 8, Int32(MSG_DONTWAIT))
        }
        return ends.inner
      }
      ends.innerIdentity?.close(ends.inner)
      ends.outerIdentity?.close(ends.outer)
      ends = Ends()
      var pair: [Int32] = [-1, -1]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &pair) == 0 else { return nil }
      ends = Ends(
        inner: pair[0], outer: pair[1], innerIdentity: FileIdentity(pair[0]), outerIdentity: FileIdentity(pair[1]))
      return ends.inner
    }
  }
}
