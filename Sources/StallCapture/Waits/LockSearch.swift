import CLinux
import StallReport

/// Finds a lock's owner by the word that is waited on, and by what lies around it.
struct LockSearch {
  let futex: SystemCall.Futex
  let waiter: Int32
  let process: ProcessHandle

  /// Nil where it is not known how locks are laid out: then only those that the kernel knows have owners.
  private var layouts: LockLayouts? { process.lockLayouts }

  typealias Candidate = LockHolder.Candidate

  /// The owner, if one kind of lock has that shape.
  ///
  /// The memory of a futex that is not private may be another process's, too, whose threads have the same numbers in a PID namespace of
  /// their own. A thread that is joined is known by its own structure.
  func candidate() -> Candidate? {
    guard futex.isPrivate || process.isPrivate(futex.address) else { return joined() ?? joinedByState() }
    if futex.isPriorityInheriting { return inheriting() }
    guard futex.isWait else { return nil }
    return mutex() ?? readWriteLock() ?? stream() ?? joined() ?? joinedByState() ?? queue() ?? loop()
  }

  /// Whether a mutex that processes share is held, and by no thread of this one.
  func isHeldElsewhere() -> Bool {
    guard let owner = mutexOwner() else { return false }
    return process.lacksThread(Int32(owner))
  }

  /// A candidate, if the thread lives.
  private func alive(
    _ id: UInt32, _ kind: LockHolder.Kind, label: String? = nil, in function: Candidate.Function = .any
  )
    -> Candidate?
  {
    let id = Int32(id & Self.threadMask)
    guard id > 0, process.hasThread(id) else { return nil }
    return Candidate(holder: LockHolder(thread: id, kind: kind, label: label), function: function)
  }

  // FUTEX_TID_MASK and FUTEX_OWNER_DIED (linux/futex.h).
  private static let threadMask: UInt32 = 0x3fff_ffff
  private static let ownerDied: UInt32 = 0x4000_0000

  /// futex(2): the word of a priority-inheriting futex is its owner's id, and the kernel relies on it.
  private func inheriting() -> Candidate? {
    guard let word = process.load(futex.address, as: UInt32.self), word & Self.ownerDied == 0 else { return nil }
    return alive(word, .inheriting)
  }

  /// sysdeps/nptl/bits/struct_mutex.h: the lock word, count, owner, users, kind.
  ///
  /// A plain mutex waits for the value 2; the word of a robust one is its owner's id. The owner is set once the lock is
  /// taken, and cleared before it is given back.
  private func mutex() -> Candidate? { mutexOwner().flatMap { alive($0, .mutex, in: .mutex) } }

  private func mutexOwner() -> UInt32? {
    guard layouts?.knows(.mutex) == true,
      let words = process.load(futex.address, as: (UInt64, UInt64, UInt32).self)
    else { return nil }
    let (word, owner) = (UInt32(truncatingIfNeeded: words.0), UInt32(truncatingIfNeeded: words.1))
    let (users, kind) = (UInt32(words.1 >> 32), words.2)
    guard word == futex.value, users >= 1, owner != 0, owner & ~Self.threadMask == 0, kind < 1024 else { return nil }
    // Of the kinds (pthreadP.h) the low two bits are the type; 16 is robust, 32 inherits and 64 protects priority.
    let isOwnersWord = kind & 16 != 0 && word & Self.threadMask == owner && word & Self.ownerDied == 0
    guard kind & 0x6c == 0, isOwnersWord || (kind & 16 == 0 && word == 2) else { return nil }
    return owner
  }

  /// sysdeps/nptl/bits/struct_rwlock.h: `__wrphase_futex` at 8, `__writers_futex` at 12, `__cur_writer` at 24.
  ///
  /// A reader waits on the first and a writer on the second for a writer to go; both for the value 3. Of the words that would be
  /// the writer for one and for the other, the wrong one lies in padding, or is a flag.
  private func readWriteLock() -> Candidate? {
    guard layouts?.knows(.readWriteLock) == true, futex.value == 3,
      process.load(futex.address, as: UInt32.self) == 3
    else { return nil }
    func writer(at offset: UInt64, _ function: Candidate.Function) -> Candidate? {
      guard let word = process.load(futex.address &+ offset, as: UInt32.self), word > 1,
        word & ~Self.threadMask == 0
      else { return nil }
      return alive(word, .readWrite, in: function)
    }
    let (reader, other) = (writer(at: 16, .readLock), writer(at: 12, .writeLock))
    return reader != nil && other != nil ? nil : reader ?? other
  }

  /// sysdeps/nptl/stdio-lock.h: the lock word, a count, and a pointer to the owner's thread structure.
  private func stream() -> Candidate? {
    guard futex.value == 2, let words = process.load(futex.address, as: (UInt64, UInt64).self),
      UInt32(truncatingIfNeeded: words.0) == 2, let offset = layouts?.threadID,
      isThreadStructure(words.1),
      let owner = process.load(words.1 &+ offset, as: UInt32.self)
    else { return nil }
    return alive(owner, .stream)
  }

  private func isThreadStructure(_ address: UInt64) -> Bool {
    LockLayouts.isThreadStructure(address, in: process)
  }

  /// pthread_join(3) waits on the id in the thread's structure, which the kernel clears when the thread ends.
  private func joined() -> Candidate? {
    guard futex.value != 0, futex.value & ~Self.threadMask == 0, let offset = layouts?.threadID,
      process.load(futex.address, as: UInt32.self) == futex.value, isThreadStructure(futex.address &- offset)
    else { return nil }
    return alive(futex.value, .thread)
  }

  /// Since glibc 2.43 pthread_join(3) waits on a state word of the thread's structure instead.
  ///
  /// Of the words there only this one is a futex that is not private, because the kernel wakes its waiters.
  private func joinedByState() -> Candidate? {
    guard !futex.isPrivate, let offset = layouts?.threadID,
      process.load(futex.address, as: UInt32.self) == futex.value
    else { return nil }
    let nearest = futex.address & ~(LockLayouts.alignment - 1)
    for structure in stride(from: nearest, through: nearest &- min(nearest, 2048), by: -Int(LockLayouts.alignment))
    where isThreadStructure(structure) {
      guard let id = process.load(structure &+ offset, as: UInt32.self), id != UInt32(bitPattern: waiter) else {
        return nil
      }
      return alive(id, .thread)
    }
    return nil
  }

  /// What `Loop.performAndWait` waits with (CLinux, `clinux_awaited`): the word, the loop's thread, and a mark of the address.
  private func loop() -> Candidate? {
    guard futex.value == 0, let wait = process.load(futex.address, as: (UInt32, UInt32, UInt64).self),
      wait.0 == 0, wait.2 == clinux_awaited_mark(futex.address)
    else { return nil }
    return alive(wait.1, .loop)
  }

  /// What `dispatch_sync` waits with lies on the waiter's stack (libdispatch, src/inline_internal.h and queue_internal.h,
  /// `dispatch_sync_context_s`): before the word the queue (-40), the context itself (-56), after it the waiter's id (4).
  ///
  /// The word of a queue (`dq_state`) has the id of the thread that drains it. If that is the waiter, it is further on in the
  /// queue's targets that another drains.
  private func queue() -> Candidate? {
    let word = futex.address
    guard futex.value == .max, layouts?.knows(.queue) == true, process.load(word, as: UInt32.self) == .max,
      process.load(word &+ 4, as: Int32.self) == waiter, process.load(word &- 56, as: UInt64.self) == word &- 96,
      process.load(word &- 48, as: UInt64.self) == ~3, var queue = process.load(word &- 40, as: UInt64.self)
    else { return nil }
    let label = process.load(queue &+ 72, as: UInt64.self).flatMap { process.string(at: $0, limit: 100) }
    for _ in 0..<8 {
      guard queue != 0, let state = process.load(queue &+ 56, as: UInt64.self) else { return nil }
      let owner = UInt32(truncatingIfNeeded: state) & Self.threadMask
      if owner == 0 { return nil }
      if owner != UInt32(bitPattern: waiter) { return alive(owner, .queue, label: label) }
      guard let target = process.load(queue &+ 24, as: UInt64.self) else { return nil }
      queue = target
    }
    return nil
  }
}
