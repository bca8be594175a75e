import CLinux
import DescriptorIO
import PlatformLibc
import StallCapture

/// Lines that wait for the agent in a file, which outlives the process: a ring of 4 MiB at most, oldest first.
///
/// Its lock shows that the process is alive. It belongs to a mapping that is never accessed,
/// because its descriptor is closed at once. The child of a fork, which does not get the mapping,
/// therefore does not hold it, and a service that closes all descriptors does not release it.
/// Belongs to the agent's thread.
final class SpoolFile {
  /// A line in the file.
  struct Entry {
    var serial: UInt64
    fileprivate var offset: Int
    var length: Int
    var droppedBefore: UInt64
  }

  private let directory: StateDirectory
  private let name: String
  private let lock: UnsafeMutableRawPointer
  private var descriptor: GuardedDescriptor
  let ringSize: Int
  private var head = 0
  private(set) var used = 0
  private(set) var entries: [Entry] = []

  /// Makes the file.
  init(in directory: StateDirectory, prefix: String, ringSize: Int) throws(StateDirectory.Failure) {
    name = AbandonedFiles.makeName(prefix)
    self.ringSize = ringSize
    self.directory = directory
    let name = name
    (descriptor, lock) = try directory.use { (parent) throws(StateDirectory.Failure) in
      // Under its own name only once it is locked: nobody takes it for a dead process's.
      let unfinished = "." + name
      let file = clinux_open_at(parent, unfinished, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
      guard file >= 0 else { throw StateDirectory.Failure(code: errno) }
      // The lock must not be this one's.
      let second = clinux_open_at(parent, unfinished, O_RDWR | O_NOFOLLOW, 0)
      let pages = clinux_pages(SpoolFormat.headSize)
      if second >= 0, let pages, let descriptor = GuardedDescriptor(second), flock(file, LOCK_EX | LOCK_NB) == 0,
        clinux_pages_show_file(pages, SpoolFormat.headSize, file), renameat(parent, unfinished, parent, name) == 0
      {
        close(file)
        return (descriptor, pages)
      }
      let code = errno
      unlinkat(parent, unfinished, 0)
      close(file)
      if second >= 0 { close(second) }
      if let pages { clinux_pages_free(pages, SpoolFormat.headSize) }
      throw StateDirectory.Failure(code: code)
    }
  }

  deinit {
    descriptor.close()
    clinux_pages_free(lock, SpoolFormat.headSize)
  }

  var path: String { "\(directory.path)/\(name)" }

  /// Whether there is space for a line without dropping one.
  func hasRoom(for length: Int) -> Bool { used + SpoolFormat.recordHeadSize + length <= ringSize }

  /// Adds a line.
  ///
  /// Returns an errno value if the file does not take it.
  func append(_ line: OutgoingLine, serial: UInt64) -> Int32? {
    guard hasRoom(for: line.bytes.count), reopen() else { return ENOSPC }
    let offset = (head + used) % ringSize
    let record = SpoolFormat.record(line.bytes)
    if let code = write(record, at: offset) { return code }
    used += record.count
    if let code = commit() {
      used -= record.count
      return code
    }
    entries.append(
      Entry(serial: serial, offset: offset, length: line.bytes.count, droppedBefore: line.droppedBefore))
    return nil
  }

  /// Takes the oldest lines out.
  func removeFirst(_ count: Int) {
    for entry in entries.prefix(count) {
      let size = SpoolFormat.recordHeadSize + entry.length
      head = (head + size) % ringSize
      used -= size
    }
    entries.removeFirst(min(count, entries.count))
    // Before their space is written to: what the head counts is always whole.
    if reopen() { _ = commit() }
  }

  /// The line as it was added; nil if the file does not give it back.
  func read(_ entry: Entry) -> [UInt8]? {
    guard reopen() else { return nil }
    var record = [UInt8](repeating: 0, count: SpoolFormat.recordHeadSize + entry.length)
    let first = min(record.count, ringSize - entry.offset)
    let isRead = record.withUnsafeMutableBytes { bytes in
      pread(descriptor.number, bytes.baseAddress, first, off_t(SpoolFormat.headSize + entry.offset)) == first
        && (first == bytes.count
          || pread(descriptor.number, bytes.baseAddress! + first, bytes.count - first, off_t(SpoolFormat.headSize))
            == bytes.count - first)
    }
    guard isRead, SpoolFormat.isWhole(record) else { return nil }
    return Array(record.dropFirst(SpoolFormat.recordHeadSize))
  }

  /// Removes the file.
  func remove() { _ = try? directory.use { unlinkat($0, name, 0) } }

  // MARK: Writing

  private func commit() -> Int32? {
    put(SpoolFormat.head(head: head, used: used, ringSize: ringSize), at: 0)
  }

  private func write(_ bytes: [UInt8], at offset: Int) -> Int32? {
    let first = min(bytes.count, ringSize - offset)
    if let code = put(bytes[..<first], at: SpoolFormat.headSize + offset) { return code }
    return first < bytes.count ? put(bytes[first...], at: SpoolFormat.headSize) : nil
  }

  private func put(_ bytes: some Collection<UInt8>, at offset: Int) -> Int32? {
    let bytes = Array(bytes)
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeBytes {
        pwrite(descriptor.number, $0.baseAddress! + done, bytes.count - done, off_t(offset + done))
      }
      if count < 0, errno == EINTR { continue }
      if count <= 0 { return count < 0 ? errno : ENOSPC }
      done += count
    }
    return nil
  }

  /// A service may have closed the descriptor, and opened another file by its number.
  private func reopen() -> Bool {
    if descriptor.isIntact { return true }
    let again = try? directory.use { clinux_open_at($0, name, O_RDWR | O_NOFOLLOW, 0) }
    guard let again, again >= 0 else { return false }
    guard descriptor.isSameFile(as: again), let guarded = GuardedDescriptor(again) else {
      close(again)
      return false
    }
    descriptor = guarded
    return true
  }
}
