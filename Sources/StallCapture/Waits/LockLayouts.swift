import CLinux
import PlatformLibc

/// Where the C library and libdispatch keep what names a lock's owner, and whether it is so in this process.
///
/// The offsets are those of glibc 2.36 (sysdeps/nptl/bits/struct_mutex.h and struct_rwlock.h, nptl/descr.h) and of libdispatch 6. The check
/// takes locks of its own and looks for its thread's id in them. No holder is named of locks whose layout it does not find. The places in
/// a standard stream's lock and in a join are not checked: each use finds a thread's structure, which pointers lead back to.
package struct LockLayouts: Sendable {
  /// A layout that is checked.
  enum Layout: CaseIterable {
    /// A mutex's owner at 8, its users at 12 and its kind at 16.
    case mutex
    /// A read-write lock's writer at 24.
    case readWriteLock
    /// A thread's structure with the thread's id.
    case threadStructure
    /// A queue's label at 72, its target at 24, its state at 56.
    case queue

    /// The locks whose holders are named with it.
    var locks: String {
      switch self {
      case .mutex: "pthread mutexes"
      case .readWriteLock: "read-write locks"
      case .threadStructure: "standard streams and joins"
      case .queue: "dispatch queues"
      }
    }

    /// Whether the process has locks of that layout.
    var isNeeded: Bool {
      switch self {
      case .mutex, .readWriteLock, .threadStructure: true
      case .queue: clinux_main_queue_is_here()
      }
    }
  }

  private let known: Set<Layout>
  private let canReadMemory: Bool
  /// The C library aligns a thread's structure so at least; the main thread's has no more on aarch64.
  static let alignment: UInt64 = 32
  /// Where a thread's structure has the thread's id, if the structure can be recognised.
  package let threadID: UInt64?
  /// How far above its structure a thread's pointer is.
  package let pointerDistance: UInt64

  /// Checks the layouts in the own process, in about 0.2 ms, on a thread that is prepared to read memory.
  init(testedIn process: ProcessHandle) {
    pointerDistance = UInt64(clinux_thread_pointer()) &- UInt64(clinux_thread_self())
    let id = UInt32(clinux_gettid())
    canReadMemory = process.load(UInt64(clinux_thread_self()), as: UInt64.self) != nil
    let threadID = Self.findThreadID(id, in: process)
    self.threadID = threadID
    known = Set(
      Layout.allCases.filter { layout in
        switch layout {
        case .mutex: Self.mutexHasOwner(id)
        case .readWriteLock: Self.readWriteLockHasWriter(id)
        case .threadStructure: threadID != nil
        case .queue: clinux_dispatch_queue_layout_is_known()
        }
      })
  }

  func knows(_ layout: Layout) -> Bool { known.contains(layout) }

  /// Which locks have holders that are not named here, and why, in words; or nil if there are none.
  package var problem: String? {
    guard canReadMemory else { return "lock holders are not reported: the process cannot read its own memory" }
    let unknown = Layout.allCases.filter { !knows($0) && $0.isNeeded }
    guard !unknown.isEmpty else { return nil }
    return "lock holders of \(unknown.map(\.locks).joined(separator: ", ")) are not reported: "
      + "this C library or runtime stores the owner at an unknown offset"
  }

  private static func mutexHasOwner(_ id: UInt32) -> Bool {
    guard MemoryLayout<pthread_mutex_t>.size >= 20 else { return false }
    return withUnsafeTemporaryAllocation(of: pthread_mutex_t.self, capacity: 1) { lock in
      let mutex = lock.baseAddress!
      guard pthread_mutex_init(mutex, nil) == 0 else { return false }
      defer { pthread_mutex_destroy(mutex) }
      let words = UnsafeRawPointer(mutex)
      func word(_ offset: Int) -> UInt32 { words.load(fromByteOffset: offset, as: UInt32.self) }
      guard word(8) == 0, word(12) == 0, word(16) == 0, pthread_mutex_lock(mutex) == 0 else { return false }
      let isFound = word(0) == 1 && word(8) == id && word(12) == 1
      return pthread_mutex_unlock(mutex) == 0 && isFound && word(8) == 0
    }
  }

  private static func readWriteLockHasWriter(_ id: UInt32) -> Bool {
    guard MemoryLayout<pthread_rwlock_t>.size >= 28 else { return false }
    return withUnsafeTemporaryAllocation(of: pthread_rwlock_t.self, capacity: 1) { lock in
      let readWriteLock = lock.baseAddress!
      guard pthread_rwlock_init(readWriteLock, nil) == 0 else { return false }
      defer { pthread_rwlock_destroy(readWriteLock) }
      let words = UnsafeRawPointer(readWriteLock)
      func writer() -> UInt32 { words.load(fromByteOffset: 24, as: UInt32.self) }
      guard writer() == 0, pthread_rwlock_wrlock(readWriteLock) == 0 else { return false }
      let isFound = writer() == id
      return pthread_rwlock_unlock(readWriteLock) == 0 && isFound && writer() == 0
    }
  }

  private static func findThreadID(_ id: UInt32, in process: ProcessHandle) -> UInt64? {
    #if canImport(Glibc)
    let own = UInt64(clinux_thread_self())
    guard isThreadStructure(own, in: process) else { return nil }
    return stride(from: UInt64(24), to: 1600, by: 4).first {
      process.load(own &+ $0, as: UInt32.self) == id
    }
    #else
    // musl's structure can look like glibc's while the process has one thread.
    return nil
    #endif
  }

  #if arch(arm64)
  /// Whether a thread's structure lies at the address.
  ///
  /// Behind 24 words it has its place in the C library's list of threads (`list_t`), and its neighbours lead back to it.
  static func isThreadStructure(_ address: UInt64, in process: ProcessHandle) -> Bool {
    let list = address &+ 24 * 8
    guard address % 8 == 0, let (next, previous) = process.load(list, as: (UInt64, UInt64).self), next != list else {
      return false
    }
    return process.load(next &+ 8, as: UInt64.self) == list && process.load(previous, as: UInt64.self) == list
  }
  #elseif arch(x86_64)
  /// Whether a thread's structure lies at the address.
  ///
  /// `tcb` and `self` of glibc's lead back to it (System V ABI, AMD64 supplement, thread-local storage).
  static func isThreadStructure(_ address: UInt64, in process: ProcessHandle) -> Bool {
    guard address % 8 == 0, let head = process.load(address, as: (UInt64, UInt64, UInt64).self) else {
      return false
    }
    return head.0 == address && head.2 == address
  }
  #else
  /// Whether a thread's structure lies at the address: no layout is known.
  static func isThreadStructure(_ address: UInt64, in process: ProcessHandle) -> Bool { false }
  #endif
}
