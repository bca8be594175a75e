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

  /// The headers that services in C include, without their suffix.
  ///
  /// `stallmonitor_errors.h` is for the library, and is not installed.
  public static let headersInC: [String] = {
    let names = try? FileManager.default.contentsOfDirectory(atPath: file("Sources/CStallMonitor/include").path)
    return (names ?? []).filter { $0.hasSuffix(".h") && $0 != "stallmonitor_errors.h" }.map { String($0.dropLast(2)) }
      .sorted()
  }()
}
