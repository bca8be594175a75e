import Foundation

/// The working copy that the tests are in.
public enum Repository {
  /// The top directory.
  ///
  /// Found from this file upwards, since packages under `Integrations` have this directory as a link.
  public static let root: URL = {
    var directory = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    while directory.path != "/",
      !FileManager.default.fileExists(atPath: directory.appending(path: "Config/schema").path)
    {
      directory.deleteLastPathComponent()
    }
    return directory
  }()

  /// A file or directory of the repository.
  public static func file(_ path: String) -> URL { root.appending(path: path) }
}
