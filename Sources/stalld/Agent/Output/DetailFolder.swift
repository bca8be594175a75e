import CLinux
import FoundationEssentials
import Glibc

/// The directory of detail files; used on the store's thread alone.
///
/// Nothing in it is touched but regular files whose names are ours, and no link is followed, to it or in it.
final class DetailFolder: @unchecked Sendable {
  // @unchecked: handed to closures of one thread.

  private struct Entry {
    var id: String
    /// Whose it is; nil of the files of earlier versions.
    var user: UInt32?
    /// When it was last written, in seconds since 1970.
    var time: Int
    var size: Int

    /// `ID.USER.json`: who knows the id of another user's stall cannot take its file's place.
    var name: String { id + (user.map { ".\($0)" } ?? "") + DetailFolder.suffix }
  }

  /// What has been written today of whom; not a detail, but kept beside them.
  private static let usageName = "usage"
  private static let usageLimit = 1 << 20
  /// Small files take room, too.
  private static let fileLimit = 1 << 16
  private static let suffix = ".json"
  private static let unfinished = ".part"

  private let say: OutputWriter.Say
  private var settings = AgentSettings.Details()
  private var directory: Int32 = -1
  // Oldest first.
  private var entries: [Entry] = []
  private var bytesOfUser: [UInt32?: Int] = [:]
  private var hasComplained = false
  private var failures: UInt64 = 0
  private(set) var bytes = 0
  private(set) var written: UInt64 = 0
  private(set) var removed: UInt64 = 0

  init(say: @escaping OutputWriter.Say) { self.say = say }

  deinit { if directory >= 0 { close(directory) } }

  var count: Int { entries.count }

  /// 32 lower-case hexadecimal digits.
  static func isIdentity(_ text: some Collection<UInt8>) -> Bool {
    text.count == 32
      && text.allSatisfy {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
      }
  }

  func takeFailures() -> UInt64 {
    defer { failures = 0 }
    return failures
  }

  /// Opens the directory that is configured, or makes it, and applies the limits to what is there.
  func use(_ settings: AgentSettings.Details) throws(OutputError) {
    if directory < 0 || settings.directory != self.settings.directory {
      let name = "details.directory \(settings.directory)"
      if mkdir(settings.directory, 0o750) != 0, errno != EEXIST { throw OutputError(name, code: errno) }
      let opened = clinux_open(settings.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0)
      guard opened >= 0 else { throw OutputError(name, code: errno) }
      guard faccessat(opened, ".", W_OK | X_OK, AT_EACCESS) == 0 else {
        let code = errno
        close(opened)
        throw OutputError(name, code: code)
      }
      if directory >= 0 { close(directory) }
      directory = opened
      self.settings = settings
      scan()
    }
    self.settings = settings
    makeRoom(for: 0)
  }

  /// Returns the file's path, or nil if it could not be written.
  func write(_ id: String, of user: UInt32, _ bytes: [UInt8]) -> String? {
    let entry = Entry(id: id, user: user, time: time(nil), size: bytes.count)
    guard bytes.count <= settings.maxSize else { return fail(EFBIG) }
    makeRoom(for: bytes.count)
    let code = replace(entry.name, with: bytes)
    guard code == 0 else { return fail(code) }
    hasComplained = false
    written += 1
    forget(entry)
    entries.append(entry)
    count(entry)
    return "\(settings.directory)/\(entry.name)"
  }

  /// Keeps what has been written today of whom.
  func keepUsage(_ text: String) {
    let code = replace(Self.usageName, with: Array(text.utf8))
    if code != 0 { _ = fail(code) }
  }

  /// What was kept last; empty if nothing was.
  func keptUsage() -> String {
    let file = clinux_open_at(directory, Self.usageName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)
    guard file >= 0 else { return "" }
    defer { close(file) }
    var status = stat()
    guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.usageLimit else {
      return ""
    }
    var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
    let count = read(file, &bytes, bytes.count)
    return String(decoding: bytes[..<max(0, count)], as: UTF8.self)
  }

  /// Writes a file, and puts it in the place of the one that is there; an error number if that failed.
  private func replace(_ name: String, with bytes: [UInt8]) -> Int32 {
    let unfinished = name + Self.unfinished
    // What a killed agent has left, of this same file.
    unlinkat(directory, unfinished, 0)
    let file = clinux_open_at(directory, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o640)
    guard file >= 0 else { return errno }
    var sent = 0
    var code: Int32 = 0
    while sent < bytes.count, code == 0 {
      let count = bytes.withUnsafeBytes { Glibc.write(file, $0.baseAddress! + sent, bytes.count - sent) }
      if count > 0 { sent += count } else if errno != EINTR { code = count < 0 ? errno : ENOSPC }
    }
    close(file)
    if code == 0, renameat(directory, unfinished, directory, name) != 0 { code = errno }
    if code != 0 { unlinkat(directory, unfinished, 0) }
    return code
  }

  private func fail(_ code: Int32) -> String? {
    failures += 1
    if !hasComplained { say(.error, "no detail file in \(settings.directory): \(String(cString: strerror(code)))") }
    hasComplained = true
    return nil
  }

  private func scan() {
    (entries, bytesOfUser, bytes) = ([], [:], 0)
    // By the descriptor, so that it is the directory that was opened, whatever its path leads to by now.
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd/\(directory)")) ?? []
    for name in names {
      var status = stat()
      guard Self.isIdentity(name.utf8.prefix(32)), fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0,
        status.st_mode & S_IFMT == S_IFREG
      else { continue }
      let isFinished = !name.hasSuffix(Self.unfinished)
      let rest = name.dropFirst(32).dropLast(isFinished ? 0 : Self.unfinished.count)
      let user = UInt32(rest.dropFirst().dropLast(Self.suffix.count))
      let entry = Entry(
        id: String(name.prefix(32)), user: user, time: status.st_mtim.tv_sec, size: Int(status.st_size))
      guard entry.name.dropFirst(32) == rest else { continue }
      if isFinished { entries.append(entry) } else { unlinkat(directory, name, 0) }
    }
    entries.sort { ($0.time, $0.id) < ($1.time, $1.id) }
    entries.forEach(count)
  }

  private func count(_ entry: Entry) {
    bytes += entry.size
    bytesOfUser[entry.user, default: 0] += entry.size
  }

  /// Removes what is too old, and then the oldest of whoever has most, until the rest and so many bytes more are within the limits.
  private func makeRoom(for size: Int) {
    let oldest = settings.maxAge.map { time(nil) - Int($0.components.seconds) } ?? Int.min
    while let first = entries.first, first.time < oldest { remove(at: 0) }
    while bytes + size > settings.maxSize || entries.count >= Self.fileLimit {
      let most = bytesOfUser.max { $0.value < $1.value }?.key
      guard let position = entries.firstIndex(where: { $0.user == most }) else { return }
      remove(at: position)
    }
  }

  private func remove(at position: Int) {
    unlinkat(directory, entries[position].name, 0)
    forget(at: position)
    removed += 1
  }

  /// The stall has a file already: it counts no more, and is replaced.
  private func forget(_ entry: Entry) {
    let known = entries.lastIndex { $0.id == entry.id && $0.user == entry.user }
    if let known { forget(at: known) }
  }

  private func forget(at position: Int) {
    let entry = entries.remove(at: position)
    bytes -= entry.size
    let left = bytesOfUser[entry.user, default: 0] - entry.size
    // One with empty files still has some.
    bytesOfUser[entry.user] = left > 0 || entries.contains { $0.user == entry.user } ? left : nil
  }
}
