import CLinux
import DescriptorIO
import PlatformLibc

/// Keeps what does not fit a line: of each reported stall a file with its samples and the whole call tree.
///
/// The files are `stalls/ID.json` in the state directory, one JSON object each. Processes of one service share the folder, so each write
/// reads what is there. Used by ``DetailWriter``, by one thread at a time.
final class DetailFiles {
  static let folder = "stalls"
  private static let limits = DetailFolder.Limits(files: 100, bytes: 20 << 20)

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
  static func path(of stallID: String, in folder: String) -> String { "\(folder)/\(DetailFolder.name(of: stallID))" }

  /// Writes the file of a stall.
  ///
  /// False if it could not be written, which is logged once. Waits for the disk.
  func write(_ detail: StallDetail) -> Bool {
    do {
      try directory.use { (state) throws(StateDirectory.Failure) in
        let folder = DetailFolder(taking: try Self.openFolder(in: state), limits: Self.limits, isShared: true)
        let code = folder.write(detail.stallID, detail.bytes)
        if code != 0 { throw StateDirectory.Failure(code: code) }
      }
      return true
    } catch {
      if !hasComplained { Diagnostics.say("cannot write detail files in \(folderPath): \(error.reason)") }
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
}
