import CLinux
import Glibc

/// What processes of the same service left that ended in a stall.
///
/// A record is sent first and removed afterwards: if this process ends in between, the next one sends it again, with the same `stall.id`.
/// Its lock, held from the look at it to its removal, keeps two processes that start at once from sending it twice.
final class EarlierRecords {
  private static let entryLimit = 65_536
  static let recordLimit = 64

  private let directory: StateDirectory
  private let prefix: String
  // Nil until the directory has been read.
  private var names: [String]?
  private var sent: Claim?

  /// A record of a dead process, locked.
  private struct Claim {
    var name: String
    var descriptor: Int32
    var identity: FileIdentity
  }

  init(directory: StateDirectory, prefix: String) {
    self.directory = directory
    self.prefix = prefix
  }

  /// Whether so many wait to be sent that there should not be more.
  var isFull: Bool { (names?.count ?? 0) >= Self.recordLimit }

  deinit { if let sent { sent.identity.close(sent.descriptor) } }

  /// Sends records for as long as the writer is rid of each.
  func tell(to writer: LineWriter) {
    guard names?.isEmpty != true || sent != nil else { return }
    if names == nil { names = list() }
    while !writer.isWaiting {
      if let sent { remove(sent) }
      sent = nil
      guard let name = names?.popLast() else { return }
      guard let claim = claim(name) else { continue }
      switch content(of: claim) {
      case .fatal(let line):
        writer.write(line)
        sent = claim
      case .over: remove(claim)
      case .unusable(let reason):
        Diagnostics.say("\(directory.path)/\(name) is left alone: \(reason)")
        claim.identity.close(claim.descriptor)
      }
    }
  }

  private func list() -> [String] {
    var names: [String] = []
    let stream = try? directory.use { clinux_open_at($0, ".", O_RDONLY | O_DIRECTORY, 0) }
    guard let stream, stream >= 0 else { return [] }
    guard let entries = fdopendir(stream) else {
      close(stream)
      return []
    }
    defer { closedir(entries) }
    for _ in 0..<Self.entryLimit {
      guard names.count < Self.recordLimit, let entry = readdir(entries) else { break }
      let name = entry.name
      if name.hasPrefix(prefix), isOurs(name) { names.append(name) }
    }
    return names
  }

  /// Whether a name is our user's or the directory's owner's: anybody may make files in `/dev/shm`.
  private func isOurs(_ name: String) -> Bool {
    let owners = try? directory.use { parent -> [uid_t] in
      var (file, place) = (stat(), stat())
      guard fstatat(parent, name, &file, AT_SYMLINK_NOFOLLOW) == 0, fstat(parent, &place) == 0 else { return [] }
      return [file.st_uid, place.st_uid]
    }
    guard let owners, owners.count == 2 else { return false }
    return owners[0] == geteuid() || owners[0] == owners[1]
  }

  /// Takes a dead process's record, and nobody else's: not of one that lives, nor one that another has taken.
  private func claim(_ name: String) -> Claim? {
    // Without waiting for whoever would write to a FIFO.
    let opened = try? directory.use {
      clinux_open_at($0, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0)
    }
    guard let descriptor = opened, descriptor >= 0, let identity = FileIdentity(descriptor) else {
      if opened != nil, errno != ENOENT {
        Diagnostics.say("\(directory.path)/\(name) is left alone: \(StateDirectory.Failure(code: errno).reason)")
      }
      return nil
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      close(descriptor)
      return nil
    }
    var status = stat()
    fstat(descriptor, &status)
    guard status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
      // Without a name it is one that another has just told.
      if status.st_nlink != 0 { Diagnostics.say("\(directory.path)/\(name) is left alone: it is no record of a stall") }
      close(descriptor)
      return nil
    }
    return Claim(name: name, descriptor: descriptor, identity: identity)
  }

  private func content(of claim: Claim) -> StallRecord.Content {
    withUnsafeTemporaryAllocation(byteCount: StallRecord.size + 1, alignment: 8) { buffer in
      // One byte more than there should be, so that a longer file is seen to be one.
      let count = pread(claim.descriptor, buffer.baseAddress, buffer.count, 0)
      guard count >= 0 else { return .unusable(reason: StateDirectory.Failure(code: errno).reason) }
      return StallRecord.read(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }
  }

  private func remove(_ claim: Claim) {
    _ = try? directory.use { unlinkat($0, claim.name, 0) }
    claim.identity.close(claim.descriptor)
  }
}
