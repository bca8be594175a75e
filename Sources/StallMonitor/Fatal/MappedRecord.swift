import CLinux
import PlatformLibc
import Synchronization

/// The mapped record file of a stall in progress.
///
/// The file remains after the process has ended.
///
/// The file exists while a stall lasts, complete from its first moment. Its lock shows that the
/// process is alive. The lock belongs to the mapping, because its descriptor is closed at once. The
/// kernel releases it with the process's memory, and neither a service that closes all descriptors
/// nor the child of a fork, which does not get the mapping, changes that.
///
/// The address is the same for the object's life: the loop may be late with its one store, and then meets plain memory.
final class MappedRecord: @unchecked Sendable {  // The loop stores one atomic word; all else is the watchdog's alone.
  private let pages: UnsafeMutableRawPointer
  private let sentinel: ForkSentinel
  private var open: Open?

  private struct Open {
    var directory: StateDirectory
    var name: String
    var turn: UInt64
    var valid: UInt64
  }

  /// Reserves the address; nil if that fails.
  init?(sentinel: ForkSentinel) {
    guard let pages = clinux_pages(StallRecord.size) else { return nil }
    self.pages = pages
    self.sentinel = sentinel
  }

  // In the child of a fork, other memory may be mapped at this address.
  deinit { if sentinel.isInOwnProcess { clinux_pages_free(pages, StallRecord.size) } }

  // MARK: The loop's side

  /// The place that gets the next turn's word when the stalled turn ends.
  var endMark: EndMark { EndMark(word: atomic(StallRecord.passedOffset)) }

  /// Records that the stalled turn has ended, by the next turn's word.
  ///
  /// One store; none in the child of a fork.
  func pass(_ word: UInt64) { if sentinel.isInOwnProcess { endMark.store(word, at: 0) } }

  // MARK: The watchdog's side

  /// Whether there is a file.
  var isOpen: Bool { open != nil }

  /// Makes the file.
  ///
  /// - Parameters:
  ///   - directory: Where; on tmpfs, so that no access to the mapping waits for a disk or fails on it.
  ///   - name: The file's name.
  ///   - turn: The late turn's word.
  ///   - line: The report as it would be if the process ended now.
  ///   - isOver: Whether the stalled turn has ended. It is called once the loop's store would reach
  ///     the file. If it returns true, there is nothing to keep.
  /// - Throws: If there can be no such file, or the line is too long for it.
  func begin(
    in directory: StateDirectory, name: String, turn: UInt64, line: [UInt8], unless isOver: () -> Bool
  ) throws(StateDirectory.Failure) {
    try directory.use { (parent) throws(StateDirectory.Failure) in
      let file = clinux_open_unnamed_at(parent, 0o600)
      guard file >= 0 else { throw StateDirectory.Failure(code: errno) }
      defer { close(file) }
      // A full disk is an error here, and would be a SIGBUS later.
      let code = posix_fallocate(file, 0, off_t(StallRecord.size))
      guard code == 0 else { throw StateDirectory.Failure(code: code) }
      guard flock(file, LOCK_EX | LOCK_NB) == 0, clinux_pages_show_file(pages, StallRecord.size, file) else {
        throw StateDirectory.Failure(code: errno)
      }
      pages.storeBytes(of: StallRecord.magic, toByteOffset: StallRecord.magicOffset, as: UInt64.self)
      pages.storeBytes(of: StallRecord.version, toByteOffset: StallRecord.versionOffset, as: UInt64.self)
      pages.storeBytes(of: turn, toByteOffset: StallRecord.turnOffset, as: UInt64.self)
      guard write(line, turn: turn, to: 0) else {
        hide()
        throw StateDirectory.Failure(code: EMSGSIZE)
      }
      guard !isOver() else { return hide() }
      guard linkat(AT_FDCWD, "/proc/thread-self/fd/\(file)", parent, name, AT_SYMLINK_FOLLOW) == 0 else {
        let code = errno
        hide()
        throw StateDirectory.Failure(code: code, path: code == ENOENT ? "/proc/thread-self/fd" : nil)
      }
      open = Open(directory: directory, name: name, turn: turn, valid: 0)
    }
  }

  /// Puts a newer line in the place of the one that is kept, which stays if the newer one is too long for it.
  func update(_ line: [UInt8]) {
    guard let current = open else { return }
    let next = 1 - current.valid
    guard write(line, turn: current.turn, to: next) else { return }
    atomic(StallRecord.validOffset).pointee.store(next, ordering: .releasing)
    open?.valid = next
  }

  /// Removes the file: the stall is over, or is no longer watched.
  func end() {
    guard let current = open else { return }
    open = nil
    // Should the name stay for some reason, it says nothing. While it is there, its lock is.
    atomic(StallRecord.passedOffset).pointee.store(StallRecord.closed, ordering: .releasing)
    _ = try? current.directory.use { unlinkat($0, current.name, 0) }
    hide()
  }

  private func hide() { _ = clinux_pages_hide_file(pages, StallRecord.size) }

  /// Fills a slot.
  ///
  /// False, and nothing is written, if the line is longer than that.
  private func write(_ line: [UInt8], turn: UInt64, to slot: UInt64) -> Bool {
    guard slot < 2, line.count <= StallRecord.longestLine else { return false }
    let start = StallRecord.headSize + Int(slot) * StallRecord.slotSize
    pages.storeBytes(of: UInt64(line.count), toByteOffset: start + StallRecord.lengthOffset, as: UInt64.self)
    pages.storeBytes(
      of: StallRecord.checksum(of: line, turn: turn), toByteOffset: start + StallRecord.checksumOffset, as: UInt64.self)
    let target = UnsafeMutableRawBufferPointer(start: pages + start + StallRecord.lineOffset, count: line.count)
    target.copyBytes(from: line)
    return true
  }

  private func atomic(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    (pages + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }
}
