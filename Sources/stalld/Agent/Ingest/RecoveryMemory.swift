import CLinux
import Glibc
import StallMonitor

/// Memory that a process is given to note in that its stalls are over: what it had no time to send is read there when its process has ended.
///
/// Made here, so that no descriptor of another user is ever taken; read by pread(2) and never mapped. Belongs to the agent's loop.
final class RecoveryMemory {
  /// How many there are, of each user: one may have no more than are left.
  final class Counts {
    private let limit: Int
    private var all = 0
    private var ofUser: [UInt32: Int] = [:]

    init(limit: Int) { self.limit = limit }

    /// One more; nil if the user has its share, or it cannot be created.
    func memory(of user: UInt32) -> RecoveryMemory? {
      guard ofUser[user, default: 0] < limit - all, let memory = RecoveryMemory(self, user) else { return nil }
      all += 1
      ofUser[user, default: 0] += 1
      return memory
    }

    fileprivate func didRelease(of user: UInt32) {
      all -= 1
      ofUser[user, default: 1] -= 1
      if ofUser[user] == 0 { ofUser[user] = nil }
    }
  }

  private let counts: Counts
  private let user: UInt32
  let descriptor: Int32

  private init?(_ counts: Counts, _ user: UInt32) {
    descriptor = clinux_sealed_memory("stalld-recovery", RecoveryFormat.size)
    guard descriptor >= 0 else { return nil }
    (self.counts, self.user) = (counts, user)
  }

  deinit {
    counts.didRelease(of: user)
    close(descriptor)
  }

  /// The outcome of a stall that the process had reported before it ended.
  func fate(of id: String) -> RecoveryFormat.Fate {
    withUnsafeTemporaryAllocation(byteCount: RecoveryFormat.size, alignment: 8) { buffer in
      guard pread(descriptor, buffer.baseAddress, buffer.count, 0) == buffer.count else { return .unknown }
      return RecoveryFormat.fate(of: id, on: UnsafeRawBufferPointer(buffer))
    }
  }
}
