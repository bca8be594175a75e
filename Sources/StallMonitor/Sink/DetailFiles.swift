import CLinux
import Glibc

/// Keeps what does not fit a line: of each stall that was told, a file with its samples and the whole call tree.
///
/// The files are `stalls/ID.json` in the state directory, one JSON object each; the oldest give way to new ones. Used by
/// ``DetailWriter``, by one thread at a time.
final class DetailFiles {
  static let folder = "stalls"
  /// The most that is kept.
  static let fileLimit = 100
  static let byteLimit = 20 << 20

  private static let suffix = ".json"

  private let directory: StateDirectory
  private var hasComplained = false

  init(directory: StateDirectory) { self.directory = directory }

  /// Files in the directory that is configured, or that systemd made for the service; nil where there is none.
  static func make(configured: String?, environment: Environment) -> DetailFiles? {
    guard let path = configured ?? environment.serviceStateDirectory,
      let directory = try? StateDirectory(path: path), (try? directory.checkWritable()) != nil
    else { return nil }
    return DetailFiles(directory: directory)
  }

  /// The folder that the files are in.
  var folderPath: String { "\(directory.path)/\(Self.folder)" }

  /// The path of a stall's file in a folder.
  static func path(of stallID: String, in folder: String) -> String { "\(folder)/\(stallID)\(suffix)" }

  /// Writes the file of a stall.
  ///
  /// False if it could not be written, which is logged once. Waits for the disk.
  func write(_ detail: StallDetail) -> Bool {
    do {
      try directory.use { (state) throws(StateDirectory.Failure) in
        try Self.put(detail.bytes, name: detail.stallID + Self.suffix, into: try Self.openFolder(in: state))
      }
      return true
    } catch {
      if !hasComplained { Diagnostics.say("no detail file in \(folderPath): \(error.reason)") }
      hasComplained = true
      return false
    }
  }

  private static func openFolder(in state: Int32) throws(StateDirectory.Failure) -> Int32 {
    if mkdirat(state, folder, 0o750) != 0, errno != EEXIST { throw StateDirectory.Failure(code: errno) }
    let descriptor = clinux_open_at(state, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
    guard descriptor >= 0 else { throw StateDirectory.Failure(code: errno) }
    return descriptor
  }

  /// Takes the folder's descriptor over.
  private static func put(_ bytes: [UInt8], name: String, into folder: Int32) throws(StateDirectory.Failure) {
    guard let listing = fdopendir(folder) else {
      let code = errno
      close(folder)
      throw StateDirectory.Failure(code: code)
    }
    defer { closedir(listing) }
    makeRoom(for: bytes.count, in: listing, folder)
    // Whoever looks finds whole files only.
    let unfinished = "." + name
    let file = clinux_open_at(folder, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o640)
    guard file >= 0 else { throw StateDirectory.Failure(code: errno) }
    var sent = 0
    while sent < bytes.count {
      let count = bytes.withUnsafeBytes { Glibc.write(file, $0.baseAddress! + sent, bytes.count - sent) }
      if count <= 0 { break }
      sent += count
    }
    let code = sent == bytes.count ? 0 : errno
    close(file)
    guard code == 0, renameat(folder, unfinished, folder, name) == 0 else {
      let reason = code == 0 ? errno : code
      unlinkat(folder, unfinished, 0)
      throw StateDirectory.Failure(code: reason)
    }
  }

  private static func makeRoom(for size: Int, in listing: OpaquePointer, _ folder: Int32) {
    var files: [(name: String, time: timespec, size: Int)] = []
    while let entry = readdir(listing) {
      let name = entry.name
      var status = stat()
      guard name.hasSuffix(suffix), fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0,
        status.st_mode & S_IFMT == S_IFREG
      else { continue }
      files.append((name, status.st_mtim, Int(status.st_size)))
    }
    var bytes = files.reduce(size) { $0 + $1.size }
    files.sort { ($0.time.tv_sec, $0.time.tv_nsec) > ($1.time.tv_sec, $1.time.tv_nsec) }
    while let oldest = files.last, files.count >= fileLimit || bytes > byteLimit {
      unlinkat(folder, oldest.name, 0)
      bytes -= oldest.size
      files.removeLast()
    }
  }
}
