import CLinux
import Synchronization

/// The threads of this library, which appear in no report.
package enum OwnThreads {
  private static let ids = Mutex<Set<Int32>>([])

  /// Counts the calling thread among them until `body` returns.
  package static func including<Result>(_ body: () -> Result) -> Result {
    let id = clinux_gettid()
    ids.withLock { _ = $0.insert(id) }
    defer { ids.withLock { _ = $0.remove(id) } }
    return body()
  }

  /// Their ids at this moment.
  package static var current: Set<Int32> { ids.withLock { $0 } }

  /// Whether the calling thread has a descriptor table apart from the service's.
  package static var isApart: Bool { clinux_descriptor_table() != 0 }
}
