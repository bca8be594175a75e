import CLinux
import Glibc
import StallMonitor

/// Memory that a host is given to note in that its stalls are over: what it had no time to send is read there when its process has ended.
///
/// Made here, so that no descriptor of a stranger's is ever taken; read by pread(2) and never mapped. Belongs to the agent's loop.
final class RecoveryMemory {
  /// How many there are.
  final class Count {
    fileprivate(set) var value = 0
  }

  private let count: Count
  let descriptor: Int32

  /// Nil if there is none to be had.
  init?(_ count: Count) {
    descriptor = clinux_sealed_memory("stalld-recovery", RecoveryFormat.size)
    guard descriptor >= 0 else { return nil }
    self.count = count
    count.value += 1
  }

  deinit {
    count.value -= 1
    close(descriptor)
  }

  /// What became of a stall of which the process told, before it ended.
  func fate(of id: String) -> RecoveryFormat.Fate {
    withUnsafeTemporaryAllocation(byteCount: RecoveryFormat.size, alignment: 8) { buffer in
      guard pread(descriptor, buffer.baseAddress, buffer.count, 0) == buffer.count else { return .unknown }
      return RecoveryFormat.fate(of: id, on: UnsafeRawBufferPointer(buffer))
    }
  }
}
