import CUnwind
import Glibc

/// Finds the thread that holds the lock which another waits for.
enum LockHolder {
  /// The id of the owning thread, or nil where it cannot be known.
  ///
  /// A priority-inheriting futex (Swift's `Mutex`) is the owner's id itself (futex(2), FUTEX_TID_MASK). glibc's normal
  /// mutex waits on its first word, which is then 2, and keeps the owner's id at offset 8 (sysdeps/nptl/bits/struct_mutex.h).
  /// Anything else, such as a condition variable, has no owner.
  static func find(for call: ThreadProbe.BlockedCall) -> Int32? {
    guard let futex = SystemCall(call).futex else { return nil }
    var words: (UInt32, UInt32, UInt32, UInt32, UInt32) = (0, 0, 0, 0, 0)
    let size = futex.isPriorityInheriting ? 4 : 20
    let read = withUnsafeMutableBytes(of: &words) { cunwind_read(futex.address, $0.baseAddress, size) }
    guard read == size else { return nil }
    let owner: UInt32
    if futex.isPriorityInheriting {
      owner = words.0 & 0x3fff_ffff
    } else {
      // Locked with waiters, waited for as such, by one user or more, of a known kind: a mutex and no other word.
      guard words.0 == 2, call.arguments.2 == 2, words.3 >= 1, words.4 < 1024 else { return nil }
      owner = words.2
    }
    guard owner > 0, ThreadProbe.name(thread: Int32(bitPattern: owner)) != nil else { return nil }
    return Int32(bitPattern: owner)
  }
}
