public import Foundation
import TestSupport

/// The host that runs the scenarios: C, linked against the installed libstallmonitor.
public enum MatrixHost {
  /// Builds the host once, with the library that `scripts/build-c-library` installed.
  public static let program = Result { try build() }

  /// The scenarios that the program has, as `host NAME` or `transfer NAME`.
  public static func list() throws -> [String] {
    let list = try Program.run(program.get().path, ["list"])
    guard list.status == 0 else { throw Failure(list.output) }
    return list.output.split(separator: "\n").map(String.init)
  }

  /// Why the host could not be built.
  public struct Failure: Error, CustomStringConvertible {
    /// The reason, with the compiler's words.
    public let description: String

    init(_ description: String) { self.description = description }
  }

  private static func build() throws -> URL {
    let library = Repository.file(".build/c-library/root")
    guard FileManager.default.fileExists(atPath: library.appending(path: "lib/libstallmonitor.so").path) else {
      throw Failure("libstallmonitor is missing: run `make matrix`, or `scripts/build-c-library \(library.path)`")
    }
    let directory = Repository.file(".build/c-library/hosts")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let program = directory.appending(path: "matrix-host")
    // Under another name first: another run of the matrix may be executing the program.
    let fresh = directory.appending(path: "matrix-host-\(ProcessInfo.processInfo.processIdentifier)")
    let sources = Repository.file("Tests/Victims/MatrixHost")
    let compiler = try Program.run(
      "/bin/sh",
      [
        "-c",
        """
        cc -std=gnu11 -Wall -Wextra -Werror -g -O1 -pthread -I\(library.path)/include -o \(fresh.path) \
        \(sources.path)/*.c -L\(library.path)/lib -lstallmonitor -lm -Wl,-rpath,\(library.path)/lib
        """,
      ])
    guard compiler.status == 0 else { throw Failure("The host of the matrix does not build:\n\(compiler.errors)") }
    guard rename(fresh.path, program.path) == 0 else { throw Failure("rename: errno \(errno)") }
    return program
  }
}
