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

  /// The object files that a program built here is linked of, without its own.
  ///
  /// A folder of objects may have some that are no longer made.
  public static func objects(of program: String) throws -> [String] {
    let list = try String(
      contentsOf: folder.appending(path: "\(program).product/Objects.LinkFileList"), encoding: .utf8)
    return list.split(separator: "\n").filter { !$0.contains("/\(program).build/") }.map(String.init)
  }

  /// Runs the compiler on a source with the modules as they are built here.
  public static func compile(_ source: URL, _ arguments: [String]) throws -> Program {
    try Program.run(
      "/usr/bin/env",
      ["swiftc", "-g", "-swift-version", "6", "-warnings-as-errors", "-I", folder.appending(path: "Modules").path]
        + modulesInC() + [source.path] + arguments)
  }
}
