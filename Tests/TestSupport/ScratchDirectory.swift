public import Foundation

/// A directory that is removed with its last reference.
public final class ScratchDirectory: Sendable {
  /// Where it is.
  public let url: URL
  /// The same, as a path.
  public var path: String { url.path }

  /// Makes one among the temporary files.
  public convenience init() throws { try self.init(in: FileManager.default.temporaryDirectory) }

  /// Makes one in a directory.
  public init(in parent: URL) throws {
    url = parent.appending(path: "stalld-test-\(UUID().uuidString.prefix(8))")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  /// Makes one in memory, as a monitor's state directory is.
  public static func inMemory() throws -> ScratchDirectory {
    try ScratchDirectory(in: URL(fileURLWithPath: "/dev/shm"))
  }

  deinit { try? FileManager.default.removeItem(at: url) }
}
