import CLinux
import PlatformLibc
import Synchronization

/// The shared page in which a loop records the end of a stall.
///
/// The agent reads it if the process ends before it has sent `stall.ended`.
///
/// Until an agent has given memory, it is a page of this process's; that memory stays mapped after the agent has gone. The address is the
/// same for the object's life, so a loop may be late with its stores. What is noted is kept in a second page, for the next agent's.
final class RecoveryPage: @unchecked Sendable {  // Loops store atomic words; all else is under the lock.
  private let page: UnsafeMutableRawPointer
  private let copy: UnsafeMutableRawPointer
  private let sentinel: ForkSentinel
  // Never waited for by a loop: held by the watchdog for a few stores, and by the agent's thread for a mapping.
  private let taken = Mutex<[Bool]>(Array(repeating: false, count: RecoveryFormat.slotCount))

  /// Nil if memory cannot be allocated.
  init?(sentinel: ForkSentinel) {
    guard let page = clinux_pages(RecoveryFormat.size) else { return nil }
    guard let copy = clinux_pages(RecoveryFormat.size) else {
      clinux_pages_free(page, RecoveryFormat.size)
      return nil
    }
    (self.page, self.copy, self.sentinel) = (page, copy, sentinel)
    for memory in [page, copy] {
      memory.storeBytes(of: RecoveryFormat.version, toByteOffset: RecoveryFormat.versionOffset, as: UInt64.self)
    }
  }

  // In the child of a fork, other memory may be mapped at this address.
  deinit {
    if sentinel.isInOwnProcess { clinux_pages_free(page, RecoveryFormat.size) }
    clinux_pages_free(copy, RecoveryFormat.size)
  }

  /// A loop's slot on the page.
  final class Slot: Sendable {
    private let page: RecoveryPage
    private let index: Int
    private var start: Int { (index + 1) * RecoveryFormat.slotSize }

    fileprivate init(_ page: RecoveryPage, _ index: Int) { (self.page, self.index) = (page, index) }

    deinit { page.taken.withLock { $0[index] = false } }

    /// Records that the stalled turn has ended: the next turn's word, and the time.
    ///
    /// Four stores; none in the child of a fork. The loop's pulse makes the same stores by ``endMarks``.
    func pass(_ word: UInt64, at time: UInt64) {
      guard page.sentinel.isInOwnProcess else { return }
      endMarks.copy.store(word, at: time)
      endMarks.page.store(word, at: time)
    }

    /// The places that get the next turn's word and the end time, in this order.
    var endMarks: (copy: EndMark, page: EndMark) { (endMark(in: page.copy), endMark(in: page.page)) }

    private func endMark(in memory: UnsafeMutableRawPointer) -> EndMark {
      EndMark(
        word: RecoveryPage.atomic(memory, start + RecoveryFormat.passedOffset),
        time: RecoveryPage.atomic(memory, start + RecoveryFormat.passedTimeOffset))
    }

    /// Records that a stall is being followed, before its first report.
    ///
    /// - Parameters:
    ///   - id: The stall's.
    ///   - turn: The late turn's word.
    ///   - since: When it began, as durations count.
    ///   - end: When the stalled turn ended, if it has. It is called once the loop's stores would
    ///     reach the page.
    func begin(_ id: String, turn: UInt64, since: UInt64, end: () -> UInt64?) {
      guard let words = RecoveryFormat.words(of: id) else { return page.setIncomplete() }
      page.taken.withLock { _ in
        for memory in [page.copy, page.page] {
          // Without an id first: a process may end in the middle, and then the stall that was there before is over.
          for (offset, word) in [
            (RecoveryFormat.highOffset, 0), (RecoveryFormat.passedOffset, 0), (RecoveryFormat.turnOffset, turn),
            (RecoveryFormat.sinceOffset, since), (RecoveryFormat.lowOffset, words.low),
            (RecoveryFormat.highOffset, words.high),
          ] { RecoveryPage.atomic(memory, start + offset).pointee.store(word, ordering: .releasing) }
        }
      }
      if let time = end() { close(at: time) }
    }

    /// The process was frozen: the duration counts from later on.
    func update(since: UInt64) {
      page.taken.withLock { _ in
        for memory in [page.copy, page.page] {
          RecoveryPage.atomic(memory, start + RecoveryFormat.sinceOffset).pointee.store(since, ordering: .relaxed)
        }
      }
    }

    /// The stall is over, or is no longer watched.
    func close(at time: UInt64) { pass(RecoveryFormat.closed, at: time) }
  }

  /// A slot for one more loop; nil if there is none left; the page then has a mark for that.
  func makeSlot() -> Slot? {
    let index = taken.withLock { taken -> Int? in
      guard let index = taken.firstIndex(of: false) else { return nil }
      taken[index] = true
      return index
    }
    guard let index else {
      setIncomplete()
      return nil
    }
    return Slot(self, index)
  }

  /// There are stalls that are not on the page.
  func setIncomplete() {
    taken.withLock { _ in
      for memory in [copy, page] {
        Self.atomic(memory, RecoveryFormat.incompleteOffset).pointee.store(1, ordering: .relaxed)
      }
    }
  }

  /// Maps memory that an agent has given where the page is, with what is noted.
  ///
  /// The descriptor stays the caller's. False if it is not memory that can be relied on.
  func show(_ descriptor: Int32) -> Bool {
    // Sealed: no store of a loop's ever meets a page that is not there.
    guard clinux_is_sealed_memory(descriptor, RecoveryFormat.size), clinux_is_on_tmpfs(descriptor),
      posix_fallocate(descriptor, 0, off_t(RecoveryFormat.size)) == 0
    else { return false }
    return taken.withLock { _ in
      guard clinux_pages_show_file(page, RecoveryFormat.size, descriptor) else { return false }
      for start in stride(from: RecoveryFormat.slotSize, to: RecoveryFormat.size, by: RecoveryFormat.slotSize) {
        for offset in [
          RecoveryFormat.highOffset, RecoveryFormat.lowOffset, RecoveryFormat.turnOffset, RecoveryFormat.sinceOffset,
        ] {
          let word = Self.atomic(copy, start + offset).pointee.load(ordering: .relaxed)
          Self.atomic(page, start + offset).pointee.store(word, ordering: .relaxed)
        }
        // What the loop has stored there meanwhile is newer.
        let passed = Self.atomic(copy, start + RecoveryFormat.passedOffset).pointee.load(ordering: .acquiring)
        let time = Self.atomic(copy, start + RecoveryFormat.passedTimeOffset).pointee.load(ordering: .relaxed)
        _ = Self.atomic(page, start + RecoveryFormat.passedTimeOffset).pointee
          .compareExchange(expected: 0, desired: time, ordering: .relaxed)
        _ = Self.atomic(page, start + RecoveryFormat.passedOffset).pointee
          .compareExchange(expected: 0, desired: passed, ordering: .releasing)
      }
      let isIncomplete = Self.atomic(copy, RecoveryFormat.incompleteOffset).pointee.load(ordering: .relaxed)
      Self.atomic(page, RecoveryFormat.incompleteOffset).pointee.store(isIncomplete, ordering: .relaxed)
      Self.atomic(page, RecoveryFormat.versionOffset).pointee.store(RecoveryFormat.version, ordering: .relaxed)
      // Last: until then the page says nothing.
      Self.atomic(page, RecoveryFormat.magicOffset).pointee.store(RecoveryFormat.magic, ordering: .releasing)
      return true
    }
  }

  private static func atomic(_ memory: UnsafeMutableRawPointer, _ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    (memory + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }
}
