public import Foundation

/// What was built with the tests.
public enum BuiltProducts {
  /// The folder of the test bundle: programs, and the modules in `Modules`.
  public static let folder: URL = {
    let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
    return URL(fileURLWithPath: bundle).deletingLastPathComponent()
  }()

  /// The arguments by which the compiler finds the modules in C that a module built here imports.
  public static func modulesInC(of folder: URL = folder) -> [String] {
    ["CLinux", "CUnwind", "CSymbols"].map { folder.appending(path: "\($0).build/module.modulemap").path }
      .filter { FileManager.default.fileExists(atPath: $0) }.flatMap { ["-Xcc", "-fmodule-map-file=\($0)"] }
  }
}
