import DescriptorIO
import PlatformLibc
import StallReport

/// A folder of detail files, one for each stall.
///
/// It names them, replaces them completely, and removes the oldest above a limit.
///
/// A service's own files are `ID.json`, those that the agent keeps are `ID.USER.json`: a user who knows the id of another user's stall cannot
/// take its file's place. Nothing in the folder is touched but regular files with such names, and no link is followed. Used by one thread
/// at a time.
package final class DetailFolder {
  /// What is kept.
  package struct Limits: Sendable {
    package var files: Int
    package var bytes: Int
    /// In seconds; nil for any age.
    package var age: Int?

    package init(files: Int, bytes: Int, age: Int? = nil) { (self.files, self.bytes, self.age) = (files, bytes, age) }
  }

  /// Whose a file is when files must be removed: a user's, nil for the service itself, and one of its units or containers.
  package struct Share: Hashable, Sendable {
    package var user: UInt32?
    package var unit: String

    package init(user: UInt32?, unit: String = "") { (self.user, self.unit) = (user, unit) }
  }

  private struct Entry {
    var id: String
    /// The one in its name.
    var user: UInt32?
    var share: Share
    /// When it was last written.
    var time: timespec
    var size: Int

    var name: String { DetailFolder.name(of: id, user: user) }
  }

  private static let suffix = ".json"
  /// Where the agent keeps a file's ``Share`` for its next run.
  private static let attribute = "user.stalld.share"
  private static let unfinished = ".part"

  package var limits: Limits
  private let descriptor: Int32
  // Oldest first.
  private var entries: [Entry] = []
  private var bytesOfUnit: [UInt32?: [String: Int]] = [:]
  /// Of all files.
  package private(set) var bytes = 0
  /// How many files have given way.
  package private(set) var removed: UInt64 = 0

  /// Reads what is in a folder, whose descriptor it takes over.
  ///
  /// `isShared`: other processes write there, too. Otherwise a killed process has left what is not finished, and it is removed.
  package init(taking descriptor: Int32, limits: Limits, isShared: Bool) {
    self.descriptor = descriptor
    self.limits = limits
    scan(isShared: isShared)
  }

  deinit { close(descriptor) }

  /// How many files there are.
  package var count: Int { entries.count }

  /// Whether a text can be the id of a stall: 32 lower-case hexadecimal digits.
  package static func isID(_ text: some Collection<UInt8>) -> Bool {
    Hexadecimal.words(of: text) != nil
  }

  /// The name of a stall's file; `user` is nil for a service's own files.
  package static func name(of id: String, user: UInt32? = nil) -> String {
    id + (user.map { ".\($0)" } ?? "") + suffix
  }

  /// Writes the file of a stall, in the place of the one that it had; an errno value, or 0.
  ///
  /// `share` is the user's own if it is nil. Waits for the disk.
  package func write(_ id: String, of user: UInt32? = nil, in share: Share? = nil, _ bytes: [UInt8]) -> Int32 {
    guard bytes.count <= limits.bytes else { return EFBIG }
    makeRoom(for: bytes.count)
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    let share = share ?? Share(user: user)
    let entry = Entry(id: id, user: user, share: share, time: now, size: bytes.count)
    let code = replace(entry.name, with: bytes, attribute: share == Share(user: user) ? nil : share.text)
    guard code == 0 else { return code }
    if let known = entries.lastIndex(where: { $0.id == id && $0.user == user }) { forget(at: known) }
    entries.append(entry)
    count(entry)
    return 0
  }

  /// Puts a file that is no stall's in the place of the one with its name; an errno value, or 0.
  package func replace(_ name: String, with bytes: [UInt8]) -> Int32 { replace(name, with: bytes, attribute: nil) }

  private func replace(_ name: String, with bytes: [UInt8], attribute: String?) -> Int32 {
    DirectoryFiles.replace(
      name, in: descriptor, unfinished: name + Self.unfinished, with: bytes,
      attribute: attribute.map { (Self.attribute, $0) })
  }

  /// Removes what is too old, and then the oldest of that unit which has most of the user that has most, until the rest and so many bytes more are within the limits.
  package func makeRoom(for size: Int) {
    let oldest = limits.age.map { time(nil) - $0 } ?? Int.min
    while let first = entries.first, first.time.tv_sec < oldest { remove(at: 0) }
    while bytes + size > limits.bytes || entries.count >= limits.files {
      guard let (user, units) = bytesOfUnit.max(by: { $0.value.values.reduce(0, +) < $1.value.values.reduce(0, +) }),
        let unit = units.max(by: { $0.value < $1.value })?.key,
        let position = entries.firstIndex(where: { $0.share == Share(user: user, unit: unit) })
      else { return }
      remove(at: position)
    }
  }

  /// Reads a file that is no stall's; empty if there is none, or if it is longer than `limit`.
  package func read(_ name: String, limit: Int) -> [UInt8] {
    DirectoryFiles.read(name, in: descriptor, limit: limit)
  }

  // MARK: What is there

  private func scan(isShared: Bool) {
    _ = DirectoryFiles.forEachName(in: descriptor) { name in
      if let entry = entry(name) {
        entries.append(entry)
      } else if !isShared, name.hasSuffix(Self.unfinished),
        entry(String(name.dropLast(Self.unfinished.count)), at: name) != nil
      {
        unlinkat(descriptor, name, 0)
      }
      return true
    }
    entries.sort { ($0.time.tv_sec, $0.time.tv_nsec, $0.id) < ($1.time.tv_sec, $1.time.tv_nsec, $1.id) }
    entries.forEach(count)
  }

  /// The file of a stall; nil if the name is no such file's.
  private func entry(_ name: String, at place: String? = nil) -> Entry? {
    var status = stat()
    guard name.hasSuffix(Self.suffix), Self.isID(name.utf8.prefix(32)),
      fstatat(descriptor, place ?? name, &status, AT_SYMLINK_NOFOLLOW) == 0, status.st_mode & S_IFMT == S_IFREG
    else { return nil }
    let user = UInt32(name.dropFirst(33).dropLast(Self.suffix.count))
    let kept = user.flatMap { _ in DirectoryFiles.attribute(Self.attribute, of: place ?? name, in: descriptor) }
    let entry = Entry(
      id: String(name.prefix(32)), user: user, share: kept.flatMap(Share.init) ?? Share(user: user),
      time: status.st_mtim, size: Int(status.st_size))
    return entry.name == name ? entry : nil
  }

  private func count(_ entry: Entry) {
    bytes += entry.size
    bytesOfUnit[entry.share.user, default: [:]][entry.share.unit, default: 0] += entry.size
  }

  private func remove(at position: Int) {
    unlinkat(descriptor, entries[position].name, 0)
    forget(at: position)
    removed += 1
  }

  private func forget(at position: Int) {
    let entry = entries.remove(at: position)
    bytes -= entry.size
    let (user, unit) = (entry.share.user, entry.share.unit)
    let left = bytesOfUnit[user]?[unit].map { $0 - entry.size } ?? 0
    // One with empty files still has some.
    bytesOfUnit[user]?[unit] = left > 0 || entries.contains { $0.share == entry.share } ? left : nil
    if bytesOfUnit[user]?.isEmpty ?? false { bytesOfUnit[user] = nil }
  }
}

extension DetailFolder.Share {
  /// The user's number, and the unit.
  fileprivate var text: String { "\(user.map(String.init) ?? "") \(unit)" }

  fileprivate init?(_ text: String) {
    let parts = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, let user = UInt32(parts[0]) else { return nil }
    self.init(user: user, unit: String(parts[1]))
  }
}
