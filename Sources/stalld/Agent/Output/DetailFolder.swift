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
    /// When it was last written, in seconds since 1970.
    var time: Int
    var size: Int
  }

  private static let suffix = ".json"
  private static let unfinished = ".part"

  private let say: OutputWriter.Say
  private var settings = AgentSettings.Details()
  private var directory: Int32 = -1
  // Oldest first.
  private var entries: [Entry] = []
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
  func write(_ id: String, _ bytes: [UInt8]) -> String? {
    let name = id + Self.suffix
    guard bytes.count <= settings.maxSize else { return fail(EFBIG) }
    makeRoom(for: bytes.count)
    let unfinished = name + Self.unfinished
    // What a killed agent has left, of this same stall.
    unlinkat(directory, unfinished, 0)
    let file = clinux_open_at(directory, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o640)
    guard file >= 0 else { return fail(errno) }
    var sent = 0
    var code: Int32 = 0
    while sent < bytes.count, code == 0 {
      let count = bytes.withUnsafeBytes { Glibc.write(file, $0.baseAddress! + sent, bytes.count - sent) }
      if count > 0 { sent += count } else if errno != EINTR { code = count < 0 ? errno : ENOSPC }
    }
    close(file)
    if code == 0, renameat(directory, unfinished, directory, name) != 0 { code = errno }
    guard code == 0 else {
      unlinkat(directory, unfinished, 0)
      return fail(code)
    }
    hasComplained = false
    written += 1
    forget(id)
    entries.append(Entry(id: id, time: time(nil), size: bytes.count))
    self.bytes += bytes.count
    return "\(settings.directory)/\(name)"
  }

  private func fail(_ code: Int32) -> String? {
    failures += 1
    if !hasComplained { say(.error, "no detail file in \(settings.directory): \(String(cString: strerror(code)))") }
    hasComplained = true
    return nil
  }

  private func scan() {
    entries = []
    // By the descriptor, so that it is the directory that was opened, whatever its path leads to by now.
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd/\(directory)")) ?? []
    for name in names {
      var status = stat()
      guard Self.isIdentity(name.utf8.prefix(32)), fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0,
        status.st_mode & S_IFMT == S_IFREG
      else { continue }
      switch name.dropFirst(32) {
      case Self.suffix:
        entries.append(Entry(id: String(name.prefix(32)), time: status.st_mtim.tv_sec, size: Int(status.st_size)))
      case Self.suffix + Self.unfinished: unlinkat(directory, name, 0)
      default: continue
      }
    }
    entries.sort { ($0.time, $0.id) < ($1.time, $1.id) }
    bytes = entries.reduce(0) { $0 + $1.size }
  }

  /// Removes the oldest until the rest and so many bytes more are within the limits.
  private func makeRoom(for size: Int) {
    let oldest = settings.maxAge.map { time(nil) - Int($0.components.seconds) } ?? Int.min
    var count = 0
    while count < entries.count, bytes + size > settings.maxSize || entries[count].time < oldest {
      unlinkat(directory, entries[count].id + Self.suffix, 0)
      bytes -= entries[count].size
      count += 1
    }
    entries.removeFirst(count)
    removed += UInt64(count)
  }

  /// The stall has a file already: it counts no more, and is replaced.
  private func forget(_ id: String) {
    guard let position = entries.lastIndex(where: { $0.id == id }) else { return }
    bytes -= entries[position].size
    entries.remove(at: position)
  }
}
