public import Foundation

/// The host that runs the scenarios: C, linked against the installed libstallmonitor.
public enum MatrixHost {
  /// Builds the host once, with the library that `scripts/build-c-library` installed.
  public static let program = Result { try build() }

  /// The scenarios that the program has, as `host NAME` or `transfer NAME`.
  public static func list() throws -> [String] {
    let (status, text) = try output(program.get().path, ["list"])
    guard status == 0 else { throw Failure(text) }
    return text.split(separator: "\n").map(String.init)
  }

  /// Why the host could not be built.
  public struct Failure: Error, CustomStringConvertible {
    /// The reason, with the compiler's words.
    public let description: String

    init(_ description: String) { self.description = description }
  }

  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  private static func build() throws -> URL {
    let library = root.appending(path: ".build/c-library/root")
    guard FileManager.default.fileExists(atPath: library.appending(path: "lib/libstallmonitor.so").path) else {
      throw Failure("libstallmonitor is missing: run `make matrix`, or `scripts/build-c-library \(library.path)`")
    }
    let directory = root.appending(path: ".build/c-library/hosts")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let program = directory.appending(path: "matrix-host")
    // Under another name first: another run of the matrix may be executing the program.
    let fresh = directory.appending(path: "matrix-host-\(ProcessInfo.processInfo.processIdentifier)")
    let sources = root.appending(path: "Tests/Victims/MatrixHost")
    let (status, text) = try output(
      "/bin/sh",
      [
        "-c",
        """
        cc -std=gnu11 -Wall -Wextra -Werror -g -O1 -pthread -I\(library.path)/include -o \(fresh.path) \
        \(sources.path)/*.c -L\(library.path)/lib -lstallmonitor -lm -Wl,-rpath,\(library.path)/lib 2>&1
        """,
      ])
    guard status == 0 else { throw Failure("The host of the matrix does not build:\n\(text)") }
    guard rename(fresh.path, program.path) == 0 else { throw Failure("rename: errno \(errno)") }
    return program
  }

  private static func output(_ command: String, _ arguments: [String]) throws -> (Int32, String) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: command)
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (process.terminationStatus, text)
  }
}
