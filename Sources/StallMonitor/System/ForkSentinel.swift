import CLinux
import PlatformLibc
import Synchronization

/// Distinguishes the process that made it from the children of its forks, for other modules of the
/// package.
package final class ProcessMark: Sendable {
  private let sentinel = ForkSentinel()

  package init() {}

  /// Whether this is the process that made the mark.
  ///
  /// One load; takes no lock.
  package var isThisProcess: Bool { sentinel.isInOwnProcess }
}

/// Distinguishes the process that made it from the children of its forks: one load, no lock and no
/// handler that a fork could miss.
///
/// The word lies in a page that the kernel wipes in the child, also of a fork that `pthread_atfork` knows nothing of.
final class ForkSentinel: @unchecked Sendable {  // The page is freed with the object, and its word is atomic.
  private static let size = 4096

  private let page: UnsafeMutableRawPointer?
  private let word: UnsafeMutablePointer<Atomic<UInt64>>?
  private let processID = getpid()

  init() {
    page = clinux_pages(Self.size)
    let isWiped = page.map { clinux_pages_wipe_on_fork($0, Self.size) } ?? false
    word = isWiped ? page?.bindMemory(to: Atomic<UInt64>.self, capacity: 1) : nil
    word?.pointee.store(1, ordering: .releasing)
  }

  deinit { if let page { clinux_pages_free(page, Self.size) } }

  /// Whether this is the process that made the sentinel.
  var isInOwnProcess: Bool {
    guard let word else { return getpid() == processID }
    return word.pointee.load(ordering: .relaxed) != 0
  }
}
