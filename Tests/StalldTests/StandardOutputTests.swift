import Foundation
import TestSupport
import Testing

@testable import stalld

/// What the subcommands do with a standard output that is slow, gone or full.
@Suite(.serialized, .takingTurns, .timeLimit(.minutes(3))) struct StandardOutputTests {
  static let commands = [
    "settings-reference manual", "check --print --config settings.yaml", "report --limit 1000 --stacks lines",
    "report --format otlp lines", "report --format folded lines", "symbolicate lines", "tail --json - <lines",
  ]

  /// Runs a shell's words in a directory with a file of reports; `$stalld` is the command.
  static func run(_ script: String) throws -> Program {
    let scratch = try ScratchDirectory()
    let lines = (1...200).map { number in
      SampleReport(id: String(repeating: "0", count: 29) + "\(100 + number)", culprit: "f\(number)").text + "\n"
    }
    try Data(lines.joined().utf8).write(to: scratch.url.appending(path: "lines"))
    try Data("limits: {memory: 8MiB}\n".utf8).write(to: scratch.url.appending(path: "settings.yaml"))
    return try Program.run(
      "/bin/bash", ["-c", script], environment: ["stalld": Program.built("stalld", "debug").path], in: scratch.url,
      limit: 60)
  }

  /// Its writer is not blocking, as another process's end of a shared pipe may be, and it has space
  /// for a page.
  @Test(arguments: commands)
  func slowPipeGetsAll(_ command: String) throws {
    let script = """
      "$stalld" \(command) >whole
      python3 -c '
      import fcntl, os, subprocess, sys, time
      reader, writer = os.pipe()
      fcntl.fcntl(writer, 1031, 4096)
      os.set_blocking(writer, False)
      child = subprocess.Popen(sys.argv[1], shell=True, stdout=writer)
      os.close(writer)
      time.sleep(0.3)
      while part := os.read(reader, 65536):
          sys.stdout.buffer.write(part)
      sys.exit(child.wait())' '"$stalld" \(command)' >parts || echo "exit code $?"
      cmp whole parts && stat --format %s whole
      """
    let result = try Self.run(script)
    #expect(Int(result.output.trimmingCharacters(in: .newlines)).map { $0 > 100 } == true, "\(result)")
  }

  @Test(arguments: commands)
  func exitedReaderIsNoFailure(_ command: String) throws {
    let script = """
      set -o pipefail
      (sleep 0.1; exec "$stalld" \(command)) | true
      """
    let result = try Self.run(script)
    #expect(result.status == 0, "\(result)")
    #expect(!result.errors.contains("Broken pipe"), "\(result.errors)")
  }

  @Test(arguments: commands)
  func fullDiskIsAFailure(_ command: String) throws {
    let result = try Self.run("\"$stalld\" \(command) >/dev/full")
    #expect(result.status == 1)
    let name = command.prefix { $0 != " " }
    #expect(
      result.errors.contains("stalld \(name): standard output: No space left on device\n"), "\(result.errors)")
  }
}
