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

  /// The modules of the packages under `Integrations`, with the folders of their sources.
  ///
  /// A package without sources of its own has only tests of the traits.
  public static var integrations: [(name: String, folder: String)] {
    get throws {
      try FileManager.default.contentsOfDirectory(atPath: file("Integrations").path).sorted().flatMap { package in
        let modules = try? FileManager.default.contentsOfDirectory(atPath: file("Integrations/\(package)/Sources").path)
        return (modules ?? []).map { ($0, "Integrations/\(package)/Sources/\($0)") }
      }
    }
  }
}
