import CLinux
import DescriptorIO
import PlatformLibc
import StallCapture
import StallReport

/// The files that processes of the same service left in a directory: each locked for as long as its process lives.
///
/// A prefix of the name says whose a file is. A process that takes a file holds its lock until it is removed, so that two processes that
/// start at once do not both use it.
struct AbandonedFiles {
  private static let entryLimit = 65_536

  let directory: StateDirectory
  let prefix: String
  /// What such a file is, in words.
  let kind: String
  /// How many are taken at most.
  let limit: Int

  /// A dead process's file, locked.
  struct Claim {
    var name: String
    fileprivate var guarded: GuardedDescriptor

    var descriptor: Int32 { guarded.number }

    /// Gives the file back.
    func release() { guarded.close() }
  }

  /// The names that may be taken.
  func list() -> [String] {
    var names: [String] = []
    var left = Self.entryLimit
    _ = try? directory.use { descriptor in
      DirectoryFiles.forEachName(in: descriptor) { name in
        if name.hasPrefix(prefix), isOurs(name) { names.append(name) }
        left -= 1
        return left > 0 && names.count < limit
      }
    }
    return names
  }

  /// Whether a name is our user's or the directory's owner's: anybody may make files in `/dev/shm`.
  private func isOurs(_ name: String) -> Bool {
    var file = stat()
    let found = try? directory.use { fstatat($0, name, &file, AT_SYMLINK_NOFOLLOW) }
    return found == 0 && isOurs(file)
  }

  private func isOurs(_ file: stat) -> Bool {
    if file.st_uid == geteuid() { return true }
    var place = stat()
    let found = try? directory.use { fstat($0, &place) }
    return found == 0 && file.st_uid == place.st_uid
  }

  /// Takes the file of a process that has ended, unless another process has taken it.
  func claim(_ name: String) -> Claim? {
    // Without waiting for the writer of a FIFO.
    let opened = try? directory.use {
      clinux_open_at($0, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0)
    }
    guard let descriptor = opened, descriptor >= 0, let guarded = GuardedDescriptor(descriptor) else {
      if opened != nil, errno != ENOENT { leaveAlone(name, because: StateDirectory.Failure(code: errno).reason) }
      return nil
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      close(descriptor)
      return nil
    }
    var status = stat()
    fstat(descriptor, &status)
    guard status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
      // Without a name it is one that another has just taken care of.
      if status.st_nlink != 0 { leaveAlone(name, because: "it is not a \(kind)") }
      close(descriptor)
      return nil
    }
    // The name may be another file's by now.
    guard isOurs(status) else {
      close(descriptor)
      return nil
    }
    return Claim(name: name, guarded: guarded)
  }

  /// Logs that a file stays.
  func leaveAlone(_ name: String, because reason: String) {
    Diagnostics.say("\(directory.path)/\(name) is ignored: \(reason)")
  }

  /// Removes a file that was taken.
  func remove(_ claim: Claim) {
    _ = try? directory.use { unlinkat($0, claim.name, 0) }
    claim.release()
  }

  /// A prefix of names that distinguishes one service from others in the directory.
  static func prefix(_ kind: String, service: [String]) -> String {
    var hash = FNV1a()
    hash.combine(service.joined(separator: "\0").utf8)
    var identity = hash.value
    return "\(kind)-\(withUnsafeBytes(of: &identity) { hexadecimal($0) })-"
  }

  /// A name with the prefix that no other process has.
  static func makeName(_ prefix: String) -> String {
    var bytes: UInt64 = 0
    let filled = withUnsafeMutableBytes(of: &bytes) { clinux_random($0.baseAddress, $0.count) }
    if !filled { bytes = MonotonicClock.now() }
    return "\(prefix)\(getpid())-\(withUnsafeBytes(of: &bytes) { hexadecimal($0) })"
  }
}
